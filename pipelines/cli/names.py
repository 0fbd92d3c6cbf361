"""Completion of names: experiments, runs, models. Reads folders alone, so that it answers at once.

@click.argument("run", shell_complete=runs)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from pipelines.workspace import default_root

_EXPERIMENTS = Path(__file__).parents[1] / "experiments"


def experiments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Experiments that ship; a shell completes files where none fits."""
    found = _items((path.stem for path in _EXPERIMENTS.glob("*.yaml")), incomplete)
    return found or [CompletionItem(incomplete, type="file")]


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Runs of the workspace, newest first, and `latest`."""
    names = [path.name for path in _folders(ctx, "runs")]
    return _items(["latest", *sorted(names, reverse=True)], incomplete)


def models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Models that were pushed."""
    return _items(sorted(path.name for path in _folders(ctx, "serving")), incomplete)


def versions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """MODEL@VERSION, of what is in the serving folders."""
    found = [
        f"{model.name}@{version.name}"
        for model in _folders(ctx, "serving")
        for version in sorted(model.iterdir(), key=lambda path: path.name.zfill(12), reverse=True)
        if version.name.isdigit()
    ]
    return _items(found, incomplete)


def targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What `lineage` takes: versions, runs, or a file."""
    found = [*versions(ctx, param, incomplete), *runs(ctx, param, incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def _folders(ctx: click.Context, name: str) -> list[Path]:
    folder = Path(ctx.params.get("root") or default_root()) / name
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
