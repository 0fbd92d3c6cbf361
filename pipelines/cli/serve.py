"""headrace serve: TensorFlow Serving's API from this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from components.errors import ServableError
from components.serving.server.options import MODEL_SOURCES, Options, kind_of, to_bool
from pipelines.cli.watch import VARIABLE
from pipelines.errors import HeadraceError
from pipelines.workspace import default_root

_SHORT_NAMES = {
    "model_root": "--model-root",
    "model_config_file": "--config",
    "rest_api_port": "--rest-port",
    "require_signature": "--require-signature",
    "log_format": "--log-format",
}
_METAVARS = {str: "TEXT", int: "INTEGER", float: "NUMBER", bool: "BOOLEAN"}


class _Truth(click.ParamType[bool]):
    """true, false, 1 or 0, as TensorFlow Serving reads its flags."""

    name = "boolean"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        if isinstance(value, bool):
            return value
        try:
            return to_bool(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _server_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Every flag of the server, under TensorFlow Serving's name and, for some, a shorter one."""
    for item in reversed(fields(Options)):
        kind = kind_of(item)
        settings: dict[str, Any] = {"is_flag": False, "flag_value": True} if kind is bool else {}
        names = [name for name in (_SHORT_NAMES.get(item.name), f"--{item.name}") if name]
        function = click.option(
            *names,
            item.name,
            type=_Truth() if kind is bool else kind,
            default=item.default,
            show_default=item.default not in ("", False),
            metavar=_METAVARS[kind],
            help=item.metadata["help"],
            envvar=VARIABLE if item.name == "log_format" else None,
            **settings,
        )(function)
    return function


@click.command("serve")
@_server_flags
def command(**flags: Any) -> None:
    """Serve models by TensorFlow Serving's gRPC and REST API, until SIGTERM.

    \b
    Examples:
      headrace serve
      headrace serve --model_name digits --model_base_path workspace/serving/digits
      headrace serve --config models.config --enable_batching

    Without a source of models, those of the workspace are served. New versions
    are picked up, warmed and swapped in without a failed request.
    """
    if not any(flags[name] for name in MODEL_SOURCES):
        flags["model_root"] = f"{default_root()}/serving"
    try:
        options = Options(**flags)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    from components.serving.server.__main__ import run

    try:
        run(options)
    except ServableError as error:
        raise HeadraceError(error.headline, place=error.place, remedy=error.remedy) from error
