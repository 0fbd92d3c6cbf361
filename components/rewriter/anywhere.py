"""Rewrites a SavedModel from anywhere, on data that is no artifact.

    found = prepare(request, scratch)
    outcome = rewrite.rewrite(found.job)

Models of ours are judged on TFRecords of serialized Examples with labels;
others on a NumPy file: `x` (N, ...) and, where there are labels, `y` (N,).
Without labels, the model's own answers stand for them, so that every
disagreement counts as a loss.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from components.errors import DataError, ServableError
from components.rewriter import foreign
from components.rewriter.base import Contract
from components.rewriter.catalogue import Target
from components.rewriter.choose import Policy
from components.rewriter.rewrite import Job
from components.serving.servable import VERSION_FOLDER
from components.subprocesses import Limits

CALIBRATION, JUDGING = "train", "validation"
_CALIBRATION_SHARE = 0.2
_SEED = 17


@dataclass(frozen=True)
class Request:
    """What to rewrite, on what, for what.

    Attributes:
        model: folder of a SavedModel.
        data: a `.npz` or `.npy` file, or a TFRecord file or a folder of them.
        signature: of a model that is not ours.
        label: label feature of TFRecords.
        ours: contract of our own exports, without signatures.
        signatures: signature -> (function, input name), of all our exports.
        values: name of a regression's output, where our export is one.
        candidates: technique names; None for those that pay.
        target: what is to load the result.
        policy: the gate.
        limits: of each build and judgement.
    """

    model: Path
    data: Path
    signature: str
    label: str
    ours: Contract
    signatures: Mapping[str, tuple[str, str]]
    values: str
    candidates: Sequence[str] | None
    target: Target
    policy: Policy
    limits: Limits


def prepare(request: Request, scratch: Path) -> Job:
    """Brings model and data into the shape that the Rewriter takes.

    Args:
        request: what is wanted.
        scratch: an empty folder; it must last as long as the job.

    Raises:
        ServableError: the model cannot be rewritten.
        DataError: the data cannot be used.
    """
    folder = _model_folder(request.model)
    examples = scratch / "examples"
    if foreign.is_ours(folder):
        uri, contract, label = folder.parent, _own_contract(request, folder), request.label
        if folder.name != VERSION_FOLDER:
            uri = scratch / "model"
            uri.mkdir()
            (uri / VERSION_FOLDER).symlink_to(folder.absolute())
        _write_splits(examples, _with_labels(_read_records(request.data), label, request.data), request.data)
    else:
        uri, label = scratch / "model", foreign.LABEL
        uri.mkdir()
        adapted = foreign.adapt(folder, request.signature, uri)
        contract = adapted.contract
        _write_splits(examples, _records_of(request.data, adapted), request.data)
    candidates = scratch / "candidates"
    candidates.mkdir()
    return Job(
        model_uri=str(uri),
        examples_uri=str(examples),
        split=JUDGING,
        calibration_split=CALIBRATION,
        label=label,
        slices=[label] if contract.classes else [],
        contract=contract.to_json(),
        candidates=request.candidates,
        target=request.target,
        policy=request.policy,
        max_examples=3000,
        limits=request.limits,
        keep=0,
        scratch=candidates,
    )


def _model_folder(model: Path) -> Path:
    inner = model / VERSION_FOLDER
    folder = inner if inner.is_dir() else model
    if not (folder / "saved_model.pb").is_file():
        raise ServableError(
            "There is no SavedModel", place=str(model), remedy="Name the folder that holds saved_model.pb."
        )
    return folder


def _own_contract(request: Request, folder: Path) -> Contract:
    """The contract with those signatures that this export has; a regression's where it has no classes."""
    known = foreign.signatures_of(folder)
    # All are rewritten; one that is named must at least be there.
    if request.signature not in known:
        raise ServableError(
            f"The model has no signature {request.signature!r}",
            place=str(folder),
            remedy=f"Leave --signature out: all are rewritten ({', '.join(known)}).",
        )
    kept = {name: value for name, value in request.signatures.items() if name in known}
    keras = request.ours.keras_model
    has_keras = (folder.parent / keras).is_file()
    contract = replace(request.ours, signatures=kept, keras_model=keras if has_keras else "")
    return contract if foreign.has_classes(folder) else replace(contract, scores=request.values, classes="")


def _write_splits(folder: Path, records: Sequence[bytes], data: Path) -> None:
    """A fifth for calibration, the rest for judging; in a seeded order."""
    if len(records) < 2:
        raise DataError(f"There are {len(records)} examples; expected some hundreds", place=str(data))
    order = np.random.default_rng(_SEED).permutation(len(records))
    cut = max(1, int(len(records) * _CALIBRATION_SHARE))
    for split, numbers in ((CALIBRATION, order[:cut]), (JUDGING, order[cut:])):
        path = folder / f"Split-{split}" / "data-00000-of-00001.gz"
        path.parent.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            for number in numbers:
                writer.write(records[int(number)])


def _read_records(data: Path) -> list[bytes]:
    files = sorted(path for path in data.rglob("*") if path.is_file()) if data.is_dir() else [data]
    records: list[bytes] = []
    for file in files:
        try:
            with file.open("rb") as opened:
                kind = "GZIP" if opened.read(2) == b"\x1f\x8b" else ""
            records += tf.data.TFRecordDataset(str(file), compression_type=kind).as_numpy_iterator()
        except OSError as error:
            raise DataError(
                f"It cannot be read: {error.strerror}",
                place=str(file),
                remedy="Let this user read it, or name with --data a folder of TFRecords alone.",
            ) from error
        except tf.errors.OpError as error:
            raise DataError(
                f"It is no TFRecord file: {str(error).splitlines()[0]}",
                place=str(file),
                remedy="Give TFRecords of serialized tf.train.Examples, as the model was trained on.",
            ) from error
    return records


def _with_labels(records: list[bytes], label: str, data: Path) -> list[bytes]:
    """The records, which all have the label.

    Raises:
        DataError: one has not, or is no Example.
    """
    for number, record in enumerate(records):
        try:
            features = tf.train.Example.FromString(record).features.feature
        except DecodeError as error:
            raise DataError("It is no tf.train.Example", place=f"{data}, record {number}") from error
        if label not in features or features[label].WhichOneof("kind") is None:
            raise DataError(
                f"A record has no feature {label!r}; it has {', '.join(sorted(features)) or 'none'}",
                place=f"{data}, record {number}",
                remedy="Name the feature that holds the right answer with --label.",
            )
    return records


def _records_of(data: Path, adapted: foreign.Adapted) -> list[bytes]:
    """A NumPy file's rows as serialized Examples."""
    rows, labels = _arrays(data)
    if rows.shape[1:] != adapted.shape:
        raise DataError(
            f"The rows have the shape {rows.shape[1:]}; expected {adapted.shape}",
            place=str(data),
            remedy="Give as x what the signature takes.",
        )
    if not np.issubdtype(rows.dtype, np.number) and rows.dtype != np.bool_:
        raise DataError(f"x holds {rows.dtype.name}; expected numbers", place=str(data))
    # As the signature takes them: images are often kept as whole numbers.
    if np.issubdtype(np.dtype(adapted.dtype), np.integer):
        rows = _whole(rows, np.dtype(adapted.dtype), data)
    else:
        rows = rows.astype(np.float32)
    named = _answers(rows, adapted) if labels is None else _classes(labels, adapted.class_names, data)
    return [_example(row, label) for row, label in zip(rows, named, strict=True)]


def _whole(rows: np.ndarray, dtype: np.dtype[Any], data: Path) -> np.ndarray:
    """The rows as int64; numbers that the signature's type does not hold would be cut to others."""
    limits = np.iinfo(dtype)
    outside = (rows < limits.min) | (rows > limits.max) | ~np.isfinite(rows)
    if np.issubdtype(rows.dtype, np.floating):
        outside |= np.mod(rows, 1) != 0
    if outside.any():
        row = int(np.argwhere(outside)[0][0])
        raise DataError(
            f"x holds {rows[outside].ravel()[0]:g}; the signature takes {dtype.name}",
            place=f"{data}, row {row}",
            remedy=f"Give whole numbers from {limits.min} to {limits.max}, as they are served.",
        )
    return rows.astype(np.int64)


def _classes(labels: np.ndarray, class_names: Sequence[str], data: Path) -> list[str]:
    """Labels as the names of classes.

    Where a label is no class, neither model is ever right, so that nothing a
    candidate does would count as a loss.
    """
    if labels.dtype == np.bool_ or (
        np.issubdtype(labels.dtype, np.floating) and np.all(np.mod(labels, 1) == 0)
    ):
        labels = labels.astype(np.int64)
    named = [str(label) for label in labels.tolist()]
    unknown = sorted(set(named) - set(class_names))
    if unknown:
        raise DataError(
            f"y has the label {unknown[0]!r}; expected {class_names[0]} to {class_names[-1]}",
            place=str(data),
            remedy="Give as y the place of the right class in the scores, counted from 0; or leave y out.",
        )
    return named


def _arrays(data: Path) -> tuple[np.ndarray, np.ndarray | None]:
    try:
        loaded: Any = np.load(data, allow_pickle=False)
        rows, labels = (loaded, None) if isinstance(loaded, np.ndarray) else (loaded["x"], loaded.get("y"))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"The data cannot be read: {error}",
            place=str(data),
            remedy="For a model that Headrace did not train, give a .npz file with x (N, ...) and y (N,), "
            "or a .npy file with x alone.",
        ) from error
    if labels is not None and labels.shape != rows.shape[:1]:
        raise DataError(f"y has the shape {labels.shape}; expected {rows.shape[:1]}", place=str(data))
    return rows, labels


def _answers(rows: np.ndarray, adapted: foreign.Adapted) -> list[str]:
    """The model's own top class for each row."""
    loaded = tf.saved_model.load(str(adapted.model_uri / VERSION_FOLDER))  # holds the core's variables
    tops = [
        np.argmax(loaded.core(tf.constant(rows[at : at + 64].astype(adapted.dtype))).numpy(), axis=1)
        for at in range(0, len(rows), 64)
    ]
    if not tops:
        return []
    return [adapted.class_names[top] for top in np.concatenate(tops)]


def _example(row: np.ndarray, label: str) -> bytes:
    if np.issubdtype(row.dtype, np.integer):
        value = tf.train.Feature(int64_list=tf.train.Int64List(value=row.ravel()))
    else:
        value = tf.train.Feature(float_list=tf.train.FloatList(value=row.ravel()))
    named = tf.train.Feature(bytes_list=tf.train.BytesList(value=[label.encode()]))
    features = tf.train.Features(feature={foreign.FEATURE: value, foreign.LABEL: named})
    return bytes(tf.train.Example(features=features).SerializeToString())
