"""The sections of a card."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from pipelines.cards import intervals
from pipelines.cards.blocks import Block, Code, Facts, Items, Paragraph, Section, Table
from pipelines.cards.known import OVERALL, Known
from pipelines.evaluation import ACCURACY, MEAN_ABSOLUTE_ERROR, MEAN_SQUARED_ERROR
from pipelines.report import data as recorded
from pipelines.report.judged import natural

MANY = 50
"""More classes or features than this are not listed one by one."""

WIDE = 0.1
"""A slice whose accuracy is known no closer than this, from end to end, is called too small to tell."""

_COUNT = "example_count"
_WORST = 3
_FORMATS = {
    "saved_model": "TensorFlow SavedModel",
    "litert": "TFLite, with a SavedModel for the preprocessing",
    "onnxruntime": "ONNX, with a SavedModel for the preprocessing",
    "tensorrt": "TensorRT engine, with a SavedModel for the preprocessing",
}
_PACKAGES = ("tensorflow", "keras", "tfx")


def what(found: Known) -> Section:
    """Kind of model, its format and licence."""
    view, words = found.view, found.words
    model, servable = view.config.get("model", {}), found.servable
    names = servable.get("class_names") or ()
    parameters = view.fact("Trainer", "parameters")
    size = (found.chosen.get("figures") or {}).get("size_bytes")
    facts = Facts(
        [
            ("Licence", words.get("license") or "none was given (card.license in the experiment)"),
            ("Answers", _answers(names) if servable else ""),
            ("Input", found.family),
            ("Network", str(model.get("name", ""))),
            ("Parameters", f"{parameters:,}" if parameters else ""),
            ("Format", _FORMATS.get(str(servable.get("runtime")), str(servable.get("runtime", "")))),
            ("Rewritten as", str(servable.get("technique", ""))),
            ("Size", f"{size / 1000:,.0f} kB" if size else ""),
            ("Pushed", _utc(found.push.at)),
        ]
    )
    texts = [words.get("intended_use"), view.config.get("description")]
    return Section("What it is", [*(Paragraph(text) for text in texts if text), facts])


def _utc(seconds: float) -> str:
    """Its readers are elsewhere."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _answers(names: Sequence[str]) -> str:
    if not names:
        return "a number"
    listed = ", ".join(sorted(names, key=natural)[:MANY])
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return f"one of {len(names)} classes: {listed}{more}"


def data(found: Known) -> Section:
    """What it was trained on, with statistics."""
    view = found.view
    examples: Mapping[str, int] = view.summary.get("examples") or {}
    order = sorted(examples, key=recorded.split_order)
    sizes = ", ".join(f"{examples[name]:,} {name}" for name in order)
    told = view.config.get("data", {})
    files = sum(int(file.properties.get("files", 1)) for file in view.input_files)
    bad = view.summary.get("bad_records")
    facts = Facts(
        [
            ("Source", str(told.get("path") or told.get("source") or "")),
            ("Files", f"{files:,}" if files else ""),
            ("Digest of their contents", str(view.fact("ExampleGen", "data_digest") or "")),
            ("Examples", sizes),
            ("Records that could not be used, and were left out", f"{bad:,}" if bad else ""),
            ("Features that were not read", ", ".join(told.get("exclude") or ())),
        ]
    )
    return Section("Data", [facts, *_classes(found), *_statistics(found), *_anomalies(found)])


def _classes(found: Known) -> Iterator[Block]:
    names = sorted({name for labels in found.counts.values() for name in labels}, key=natural)
    if not names:
        return
    splits = sorted(found.counts, key=recorded.split_order)
    if len(names) > MANY:
        yield Paragraph(f"{len(names):,} classes; the table in the run's report has them all.")
        return
    rows = [(name, *(f"{found.counts[split].get(name, 0):,}" for split in splits)) for name in names]
    yield Table("Examples per class", ("class", *splits), rows)


def _statistics(found: Known) -> Iterator[Block]:
    rows = sorted(
        recorded.statistics(found.view), key=lambda row: (row.feature, recorded.split_order(row.split))
    )
    if rows:
        cells = [(row.feature, row.split, row.kind, f"{row.missing:.1%}", row.values) for row in rows]
        head = ("feature", "split", "type", "missing", "values")
        yield Table("Statistics", head, cells[: MANY * 3])
    if len(rows) > MANY * 3:
        yield Paragraph(f"{len(rows) - MANY * 3:,} more rows of statistics are left out here.")


def _anomalies(found: Known) -> Iterator[Block]:
    rows = recorded.anomalies(found.view)
    if rows:
        cells = [(row.feature, row.split, row.text) for row in rows]
        yield Table("Anomalies that were let through", ("feature", "split", "anomaly"), cells)


def metrics(found: Known) -> Section:
    """Each slice with its interval."""
    if not found.slices:
        return Section("Metrics", [Paragraph("Its evaluation is no longer recorded.")])
    head = f"On the test split, on which nothing was chosen, with {intervals.CONFIDENCE:.0%} intervals"
    names = sorted(found.slices, key=lambda name: (name != OVERALL, *natural(name.partition("=")[2])))
    measured = dict.fromkeys(key for name in names for key in found.slices[name])
    keys = [key for key in measured if key != _COUNT]
    rows = [_slice(name, found.slices[name], keys) for name in names]
    columns = ("slice", "examples", *(key.replace("_", " ") for key in keys))
    blocks: list[Block] = [Table(head, columns, rows)]
    against = found.before.get(OVERALL, {})
    earlier = [f"{key.replace('_', ' ')} {against[key]:.4g}" for key in keys if key in against]
    if earlier:
        name = found.baseline or "the version it was compared with"
        blocks.append(Paragraph(f"On the same examples {name} had {', '.join(earlier)}."))
    return Section("Metrics", blocks)


def _slice(name: str, values: Mapping[str, float], keys: Sequence[str]) -> Sequence[str]:
    examples = int(values.get(_COUNT, 0))
    cells = [_with_interval(key, values, examples) if key in values else "" for key in keys]
    return (name, f"{examples:,}" if examples else "", *cells)


def _with_interval(key: str, values: Mapping[str, float], examples: int) -> str:
    value = values[key]
    interval = interval_of(key, values, examples)
    written = f"{value:.4f}" if key == ACCURACY else f"{value:.5g}"
    if interval is None:
        return written
    low, high = (f"{end:.4f}" if key == ACCURACY else f"{end:.5g}" for end in interval)
    return f"{written} ({low} to {high})"


def interval_of(key: str, values: Mapping[str, float], examples: int) -> tuple[float, float] | None:
    """The interval of a metric; None where the figures that are recorded give none."""
    if not examples:
        return None
    if key == ACCURACY:
        return intervals.share(values[key], examples)
    if key == MEAN_ABSOLUTE_ERROR and MEAN_SQUARED_ERROR in values:
        return intervals.mean_error(values[key], values[MEAN_SQUARED_ERROR], examples)
    return None


def limits(found: Known) -> Section:
    """What the experiment's author says of it, and what was measured."""
    texts = [*(found.words.get("limits") or ()), *_measured_limits(found)]
    return Section("Limits", [Items(texts)] if texts else [Paragraph("None were given or measured.")])


def _measured_limits(found: Known) -> Iterator[str]:
    if found.servable.get("class_names"):
        yield "Whatever it is shown, it answers with one of its classes; it cannot say that none fits."
    slices = {
        name: (values[ACCURACY], int(values[_COUNT]))
        for name, values in found.slices.items()
        if name != OVERALL and ACCURACY in values and values.get(_COUNT)
    }
    overall = found.slices.get(OVERALL, {}).get(ACCURACY, 0.0)
    below = [name for name, (value, _) in slices.items() if value < overall]
    worst = sorted(below, key=lambda name: slices[name])[:_WORST]
    if worst:
        told = ", ".join(f"{name} ({slices[name][0]:.4f} of {slices[name][1]:,} examples)" for name in worst)
        yield f"It does worst on {told}."
    wide = [name for name, (value, count) in slices.items() if _width(value, count) > WIDE]
    if wide:
        listed = ", ".join(sorted(wide, key=lambda name: natural(name.partition("=")[2]))[:MANY])
        yield (
            f"Too few examples to know the accuracy within {WIDE * 100:.0f} points: {listed}"
            f"{f' and {len(wide) - MANY} more' if len(wide) > MANY else ''}."
        )
    bound = found.chosen.get("drop_bound")
    if bound and found.servable.get("technique") != "identity":
        yield f"Rewriting it may have cost up to {bound:.2f} points of accuracy (an upper bound)."
    if found.view.summary.get("bad_records"):
        yield "Records that could not be read had no part in training or in these figures."


def _width(value: float, examples: int) -> float:
    low, high = intervals.share(value, examples)
    return high - low


def use(found: Known, *, from_hub: bool = False) -> Section:
    """Commands that serve and ask it."""
    name = shlex.quote(found.push.model)
    fetch = [f"hf download OWNER/{name} --local-dir {name}/{found.push.version}"] if from_hub else []
    signatures = [(item["name"], item["input"]) for item in found.servable.get("signatures") or ()]
    commands = [
        *fetch,
        f"headrace serve --model_name {name} --model_base_path {name}    # the folder with the version in it",
        f"headrace predict {name} FILE",
        f"curl http://127.0.0.1:8501/v1/models/{name}/metadata",
    ]
    rows = [(signature, f"{given}: (B,) string", _outputs(found)) for signature, given in signatures]
    blocks: list[Block] = [Code("\n".join(commands))]
    if rows:
        blocks.append(Table("Signatures, B examples at once", ("signature", "input", "outputs"), rows))
    if found.servable.get("runtime") == "saved_model":
        blocks.append(Paragraph("TensorFlow Serving loads it as it is."))
    return Section("How to use it", blocks)


def _outputs(found: Known) -> str:
    scores, classes = found.servable.get("scores", ""), found.servable.get("classes", "")
    return f"{scores}: (B, C) float32; {classes}: (B, C) string" if classes else f"{scores}: (B,) float32"


def origin(found: Known) -> Section:
    """What made it, so that it can be made again."""
    view, by = found.view, found.view.surroundings
    commit = str(by.get("git_commit", ""))
    trainer = view.nodes.get("Trainer")
    summary, packages = view.summary, [name for name in _PACKAGES if name in view.packages]
    facts = Facts(
        [
            ("Run", view.run.run_id),
            ("Experiment", view.run.experiment),
            ("Trained", _utc(trainer.maker.started) if trainer else ""),
            ("Seed", _said(view.fact("Trainer", "seed"))),
            ("Epochs", _said(view.fact("Trainer", "epochs"))),
            ("Precision", _said(view.fact("Trainer", "precision"))),
            ("Weights, SHA-256", _said(view.fact("Trainer", "weights_sha256"))),
            ("Commit", commit + (", with changes that were not committed" if by.get("git_dirty") else "")),
            ("Device", _said(view.fact("Trainer", "device"))),
            ("Packages", ", ".join(f"{name} {view.packages[name]}" for name in packages)),
            ("Chosen", f"{summary['chosen']}: {summary['reason']}" if summary.get("chosen") else ""),
        ]
    )
    name = shlex.quote(found.push.name)
    commands = [f"headrace lineage {name}", f"headrace reproduce {name}"]
    return Section("Where it comes from", [facts, Code("\n".join(commands))])


def _said(value: object) -> str:
    return "" if value is None else str(value)
