"""Why a model is as it is, in a short paragraph.

why(push, view(source, run), baseline="digits@2")
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from pipelines.lineage.render import clock
from pipelines.lineage.source import Push
from pipelines.lineage.view import RunView


def why(push: Push, run: RunView, baseline: str) -> str:
    """What data, when, which metric against which baseline, which candidate and why, who pushed.

    Args:
        push: the version.
        run: the run that pushed it.
        baseline: name of the version it was compared with; may be empty.
    """
    return " ".join(sentence for sentence in _sentences(push, run, baseline) if sentence)


def _sentences(push: Push, run: RunView, baseline: str) -> Iterator[str]:
    yield _data(push, run)
    yield _training(run)
    yield _choice(run)
    yield _metric(run, baseline)
    yield _pushed(push, run)


def _data(push: Push, run: RunView) -> str:
    examples = run.summary.get("examples") or {}
    maker = run.nodes.get("ExampleGen")
    when = f", read at {clock(maker.maker.started)}" if maker else ""
    if not examples:
        return f"{push.name} was trained on {_files(run)}{when}."
    shares = f"{examples.get('train', 0):,} of {sum(examples.values()):,} examples"
    return f"{push.name} was trained on {shares} from {_files(run)}{when}."


def _files(run: RunView) -> str:
    paths = [file.uri for file in run.input_files]
    if not paths:
        return "files that were not recorded"
    if len(paths) == 1:
        return paths[0]
    count = sum(int(file.properties.get("files", 1)) for file in run.input_files)
    return f"{count:,} files in {_common(paths)}"


def _common(paths: Sequence[str]) -> str:
    """The folder that all files are below; of addresses too."""
    parents = [path.rpartition("/")[0] for path in paths]
    scheme, mark, _ = parents[0].partition("://")
    if not mark:
        return os.path.commonpath(parents)
    return f"{scheme}://{os.path.commonpath([parent.partition('://')[2] for parent in parents])}"


def _training(run: RunView) -> str:
    trainer = run.nodes.get("Trainer")
    if trainer is None:
        return ""
    model = run.config.get("model", {}).get("name", "The model")
    epochs, best = run.fact("Trainer", "epochs"), run.fact("Trainer", "best_epoch")
    kept = f" for {epochs} epochs, of which epoch {best} was kept," if epochs else ""
    seed = run.fact("Trainer", "seed")
    seeded = f" with seed {seed}" if seed is not None else ""
    return f"{model} trained{seeded}{kept} in run {trainer.maker.run_id} at {clock(trainer.maker.started)}."


def _choice(run: RunView) -> str:
    summary = run.summary
    if not summary.get("chosen"):
        return ""
    # Techniques that were left out, or cannot run here, stood for no choice.
    count = sum(bool(row.get("figures", True)) for row in summary.get("candidates") or ())
    return f"Of {count} candidates {summary['chosen']} went on: {summary['reason']}."


def _metric(run: RunView, version: str) -> str:
    accuracy, baseline = run.summary.get("accuracy"), run.summary.get("baseline_accuracy")
    if accuracy is None:
        return _error(run, version)
    limits = run.config.get("evaluation", {})
    required = f" (required: {limits['min_accuracy']:g})" if "min_accuracy" in limits else ""
    against = (
        f"against {baseline:.4f} of {version or 'the latest blessed model'}"
        if baseline is not None
        else "with no earlier model to compare with"
    )
    return f"Its accuracy on the test split is {accuracy:.4f}{required}, {against}."


def _error(run: RunView, version: str) -> str:
    """The metric of a regression."""
    error, baseline = run.summary.get("error"), run.summary.get("baseline_error")
    if error is None:
        return ""
    against = (
        f"against {baseline:.4g} of {version or 'the latest blessed model'}"
        if baseline is not None
        else "with no earlier model to compare with"
    )
    return f"Its mean absolute error on the test split is {error:.4g}, {against}."


def _pushed(push: Push, run: RunView) -> str:
    by = run.surroundings
    who = f" by {by['user']} on {by['host']}" if "user" in by else ""
    commit = f", from commit {str(by['git_commit'])[:12]}" if "git_commit" in by else ""
    dirty = " with uncommitted changes" if by.get("git_dirty") else ""
    pushed = f"It was pushed to {push.destination} at {clock(push.at)}{who}"
    return f"{pushed}, by run {run.run.run_id}{commit}{dirty}."
