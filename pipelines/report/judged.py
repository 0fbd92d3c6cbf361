"""What the chosen candidate got wrong on the split that candidates were judged on.

judged = read(view)         # None where scores or examples are no longer there
judged.wrong, judged.mistakes
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.serving.spread import spread
from modules import contract
from pipelines.lineage import record
from pipelines.lineage.view import RunView
from pipelines.report import records

MAX_MISTAKES = 12
_THUMBNAIL_PIXELS = 96
_MAX_TEXT = 240


@dataclass(frozen=True)
class Mistake:
    """One example that the model got wrong.

    Attributes:
        label: the right class.
        predicted: the model's.
        score: the model's probability of its class.
        image: a `data:` address of a small PNG, or empty.
        saliency: the same, of where the model looked, or empty.
        text: other features, where there is no image.
        origin: the input file it came from, or empty.
    """

    label: str
    predicted: str
    score: float
    image: str
    saliency: str
    text: str
    origin: str


@dataclass(frozen=True)
class Judged:
    """Predictions against labels.

    Attributes:
        split: which examples.
        total: how many.
        wrong: how many examples were wrong.
        mistakes: the surest of them.
    """

    split: str
    total: int
    wrong: int
    mistakes: Sequence[Mistake]


def read(view: RunView) -> Judged | None:
    """Reads scores and examples; None where the run has none, or they were removed."""
    report = view.output("Rewriter", "report")
    servable = view.output("Rewriter", "servable")
    examples = view.output("ExampleGen", "examples")
    if not (report and servable and examples):
        return None
    scores_path, manifest = Path(report.uri, "judged.npy"), Path(servable.uri, "servable.json")
    candidates = Path(report.uri, "candidates.json")
    if not all(path.exists() for path in (scores_path, manifest, candidates)):
        return None
    told = json.loads(candidates.read_text())
    split = told["split"]
    folder = Path(examples.uri, f"Split-{split}")
    if not folder.is_dir():
        return None
    import numpy as np

    scores = np.load(scores_path, allow_pickle=False)
    if scores.ndim != 2:
        return None  # a regression has no classes to confuse
    classes = list(json.loads(manifest.read_text())["class_names"])
    # Earlier reports do not say of how many: they have judged the first ones.
    places = spread(told.get("judged_of", len(scores)), len(scores))
    return _judge(view, split, classes, scores, records.read(folder, places))


def _judge(
    view: RunView, split: str, classes: Sequence[str], scores: Any, examples: Iterable[records.Example]
) -> Judged:
    data = view.config.get("data", {})
    label_feature, image_feature = data.get("label", "label"), data.get("image", "image")
    total = 0
    wrong: list[tuple[float, str, records.Example]] = []
    for row, example in zip(scores, examples, strict=False):
        top = int(row.argmax())
        pair = (example.text(label_feature), classes[top])
        total += 1
        if pair[0] != pair[1]:
            wrong.append((float(row[top]), classes[top], example))
    wrong.sort(key=lambda item: -item[0])
    files, pictures = _files_by_group(view), _pictures(view)
    mistakes = [
        Mistake(
            example.text(label_feature),
            predicted,
            score,
            _thumbnail(example.raw(image_feature)),
            pictures.get(hashlib.sha256(example.raw(image_feature)).hexdigest(), {}).get(predicted, ""),
            _other_text(example, label_feature, image_feature),
            files.get(_group(example.shard), ""),
        )
        for score, predicted, example in wrong[:MAX_MISTAKES]
    ]
    return Judged(split, total, len(wrong), mistakes)


def natural(name: str) -> tuple[int, str]:
    """Numbers by value, before other names."""
    return (int(name), "") if name.isdecimal() else (1 << 62, name)


def _files_by_group(view: RunView) -> dict[int, str]:
    """ExampleGen's groups of a single file -> that file; groups of many images name none."""
    report = view.output("ExampleGen", "report")
    path = Path(report.uri, record.FILES) if report else None
    if path is None or not path.exists():
        return {}
    found: dict[int, list[str]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        found.setdefault(int(row["group"]), []).append(row["path"])
    return {group: paths[0] for group, paths in found.items() if len(paths) == 1}


def _pictures(view: RunView) -> dict[str, dict[str, str]]:
    """Digest of an encoded image -> class it was taken for -> where the Trainer's model looked."""
    artifact = view.output("Trainer", "model_run")
    folder = Path(artifact.uri, contract.SALIENCY_FOLDER) if artifact else None
    if folder is None or not (folder / contract.SALIENCY_INDEX).is_file():
        return {}
    index = json.loads((folder / contract.SALIENCY_INDEX).read_text())
    return {
        digest: {item["predicted"]: _png_address((folder / item["file"]).read_bytes())}
        for digest, item in index.items()
        if (folder / item["file"]).is_file()
    }


def _png_address(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def _group(shard: str) -> int:
    """`data_tfrecord-000003-00000.gz` -> 3; -1 for a file of another name."""
    parts = shard.split("-")
    return int(parts[1]) if len(parts) > 2 and parts[1].isdecimal() else -1


def _thumbnail(data: bytes) -> str:
    """A small PNG as a `data:` address; empty where the bytes are no image."""
    from PIL import Image, UnidentifiedImageError

    if not data:
        return ""
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.thumbnail((_THUMBNAIL_PIXELS, _THUMBNAIL_PIXELS))
            buffer = io.BytesIO()
            image.convert("RGB").save(buffer, format="PNG")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
        return ""
    return _png_address(buffer.getvalue())


def _other_text(example: records.Example, label: str, image: str) -> str:
    parts = [
        f"{name}: {example.text(name)}" for name in sorted(example.features) if name not in (label, image)
    ]
    text = "; ".join(parts)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
