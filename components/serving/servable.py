"""The servable: a version folder as its server loads it, and `servable.json` beside it.

<artifact>/Format-Serving/      what is pushed
<artifact>/servable.json        which runtime loads it, and how it is called
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from components.errors import ServableError

VERSION_FOLDER = "Format-Serving"
"""TFX's name for it, so that TFX's own tools find the model too."""

MANIFEST = "servable.json"

INNER_MANIFEST = Path("assets.extra", MANIFEST)
"""The same, inside version folders that are no SavedModel: a server needs it to load them."""

PREPROCESSING = "preprocessing"
"""SavedModel inside such a version folder: raw input to the core's tensor."""

CORE_FILES = {"litert": "model.tflite", "onnxruntime": "model.onnx", "tensorrt": "model.plan"}
"""Runtime -> the file with the core, as its server wants it called."""

SIGNATURE_TENSORS = "predict_tensors"
"""Signature of formats that take tensors only."""


@dataclass(frozen=True)
class Signature:
    """How one signature is called: its name and the name of its one input, (B,) string."""

    name: str
    input: str


@dataclass(frozen=True)
class TensorCore:
    """The part of a servable that takes tensors, in formats that cannot take raw input.

    Attributes:
        file: name in the version folder.
        input: name of its one input, and of the output of `preprocessing`.
        dtype: of the input.
        shape: of the input without the batch; -1 where any size will do.
    """

    file: str
    input: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Servable:
    """What `servable.json` says.

    Attributes:
        runtime: a key of `runtimes.RUNTIMES`.
        technique: the rewrite that made it; `identity` for none.
        class_names: in the order of the scores; none for a regression.
        signatures: what it answers to; the first takes serialized Examples.
        scores: name of the (B, C) float32 output, of a regression the (B,) one.
        classes: name of the (B, C) string output; empty for a regression.
        core: what takes the tensors that `preprocessing` makes; None for a
            SavedModel, which does all of it.
    """

    runtime: str
    technique: str
    class_names: tuple[str, ...]
    signatures: tuple[Signature, ...]
    scores: str
    classes: str
    core: TensorCore | None = None

    def write(self, folder: str | Path) -> None:
        """Writes the manifest beside the version folder, and into it where that is no SavedModel."""
        text = json.dumps(asdict(self), indent=1)
        Path(folder, MANIFEST).write_text(text)
        if self.core is not None:
            inner = version_folder(folder) / INNER_MANIFEST
            inner.parent.mkdir(exist_ok=True)
            inner.write_text(text)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """From the parsed manifest.

        Raises:
            TypeError, KeyError: a field is missing, unknown or of another type.
        """
        signatures = tuple(Signature(**item) for item in raw["signatures"])
        names = tuple(raw["class_names"])
        core = _core(raw["core"]) if raw.get("core") else None
        return cls(**{**raw, "signatures": signatures, "class_names": names, "core": core})

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Reads the manifest of a servable artifact.

        Raises:
            ServableError: the manifest is missing or not understood.
        """
        return cls._parse(Path(folder, MANIFEST))

    @classmethod
    def inside(cls, version: Path) -> Self:
        """Reads the manifest inside a version folder that is no SavedModel.

        Raises:
            ServableError: the manifest is missing or not understood.
        """
        return cls._parse(version / INNER_MANIFEST)

    @classmethod
    def _parse(cls, path: Path) -> Self:
        try:
            return cls.from_json(json.loads(path.read_text()))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ServableError(
                f"A servable's manifest cannot be read: {error}",
                place=str(path),
                remedy="Run the Rewriter again (headrace run --from Rewriter).",
            ) from error


def _core(raw: Mapping[str, Any]) -> TensorCore:
    return TensorCore(**{**raw, "shape": tuple(raw["shape"])})


def version_folder(folder: str | Path) -> Path:
    """The folder inside a servable artifact that a server loads."""
    return Path(folder, VERSION_FOLDER)


def size_bytes(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def class_index(class_names: Sequence[str]) -> dict[str, int]:
    """Class name -> its column in the scores."""
    return {name: index for index, name in enumerate(class_names)}
