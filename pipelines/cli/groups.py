"""Groups of commands of which one is meant where none is named.

@click.group(cls=default_to("list"))
"""

from __future__ import annotations

from typing import Any

import click


def default_to(name: str) -> type[click.Group]:
    """A group that takes anything but the name of a command as arguments of `name`."""

    class DefaultGroup(click.Group):
        default = name

        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            asks_for_help = any(option in args[:1] for option in ctx.help_option_names)
            if not args or (args[0] not in self.commands and not asks_for_help):
                args = [name, *args]
            return super().parse_args(ctx, args)

        def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
            own = super().shell_complete(ctx, incomplete)
            main = self.commands[name]
            inner = click.Context(main, info_name=name, parent=ctx)
            found = [param for param in main.params if isinstance(param, click.Argument)]
            return own + (found[0].shell_complete(inner, incomplete) if found else [])

    return DefaultGroup
