"""Any SavedModel in the shape that the Rewriter takes: a core, and what makes its input of Examples.

    adapted = adapt(Path("saved_model"), "serving_default", Path("adapted"))

The signature must take one tensor of numbers. It becomes the core; around it
stands a preprocessing that reads the tensor from serialized Examples, so that
candidates of all formats are judged as those of our own models are. A chosen
SavedModel keeps the original's own signature beside that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.errors import ServableError
from components.rewriter.base import Contract
from components.serving.servable import VERSION_FOLDER

FEATURE = "inputs"
"""Feature of the Examples that holds the tensor, flattened."""

LABEL = "label"

_CORE, _CLASSES, _BEFORE = "core", "class_names", "preprocessing"
_PARSE = "preprocess_examples"


@dataclass(frozen=True)
class Adapted:
    """A foreign model, adapted.

    Attributes:
        model_uri: folder as a trained model's artifact.
        contract: the names in it.
        shape: of one example's tensor.
        dtype: of the tensor.
        class_names: `0` to `C - 1`, or as they were given.
    """

    model_uri: Path
    contract: Contract
    shape: tuple[int, ...]
    dtype: str
    class_names: tuple[str, ...]


def is_ours(folder: Path) -> bool:
    """Whether a SavedModel has the functions that our exports have.

    Raises:
        ServableError: it does not load.
    """
    loaded = _load(folder)
    return all(hasattr(loaded, name) for name in (_CORE, _CLASSES, _BEFORE))


def has_classes(folder: Path) -> bool:
    """Whether an export of ours answers classes; a regression answers numbers."""
    return bool(len(_load(folder).class_names()))


def signatures_of(folder: Path) -> list[str]:
    """The names of a SavedModel's signatures.

    Raises:
        ServableError: it does not load.
    """
    return sorted(_load(folder).signatures)


def adapt(folder: Path, signature: str, target: Path, class_names: Sequence[str] = ()) -> Adapted:
    """Writes the adapted model.

    Args:
        folder: the SavedModel.
        signature: of the one to rewrite.
        target: an empty folder, to be a trained model's artifact folder.
        class_names: in the order of the scores; numbers where none are given.

    Raises:
        ServableError: it does not load, has no such signature, or the signature
            does not take one tensor of numbers of known shape and give one (B, C).
    """
    loaded = _load(folder)
    function, spec, output = _signature(loaded, folder, signature)
    shape = tuple(int(size) for size in spec.shape[1:])
    names = tuple(class_names) or tuple(str(number) for number in range(_count(function, output, folder)))
    stored = tf.int64 if spec.dtype.is_integer else tf.float32
    module = tf.Module()
    module.source = loaded
    before = tf.Module()

    def parse(examples: tf.Tensor) -> tf.Tensor:
        read = tf.io.parse_example(examples, {FEATURE: tf.io.FixedLenFeature(shape, stored)})
        return tf.cast(read[FEATURE], spec.dtype)

    def core(inputs: tf.Tensor) -> tf.Tensor:
        return tf.cast(function(**{spec.name: inputs})[output], tf.float32)

    setattr(module, _BEFORE, before)
    before.preprocess_examples = tf.function(parse, input_signature=[tf.TensorSpec([None], tf.string)])
    tensor = tf.TensorSpec((None, *shape), spec.dtype, name="inputs")
    module.core = tf.function(core, input_signature=[tensor])
    module.class_names = tf.function(lambda: tf.constant(list(names)), input_signature=[])
    serve = tf.function(
        lambda examples: {
            "scores": core(parse(examples)),
            "classes": tf.tile(tf.constant([list(names)]), [tf.size(examples), 1]),
        },
        input_signature=[tf.TensorSpec([None], tf.string, name="examples")],
    )
    tf.saved_model.save(module, str(target / VERSION_FOLDER), {"serving_examples": serve})
    contract = Contract(
        core=_CORE,
        class_names=_CLASSES,
        preprocessing=_BEFORE,
        signatures={"serving_examples": (_PARSE, "examples")},
        scores="scores",
        classes="classes",
        tensors=(signature, spec.name, output, function.structured_outputs[output].dtype.name),
    )
    return Adapted(target, contract, shape, spec.dtype.name, names)


def _load(folder: Path) -> Any:
    try:
        return tf.saved_model.load(str(folder))
    except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
        raise ServableError(
            f"There is no SavedModel that loads: {(str(error).splitlines() or [''])[0]}",
            place=str(folder),
            remedy="Name the folder that holds saved_model.pb.",
        ) from error


def _signature(loaded: Any, folder: Path, name: str) -> tuple[Any, tf.TensorSpec, str]:
    known = sorted(loaded.signatures)
    if name not in loaded.signatures:
        raise ServableError(
            f"The model has no signature {name!r}",
            place=str(folder),
            remedy=f"Name one with --signature: {', '.join(known) or 'it has none'}.",
        )
    function = loaded.signatures[name]
    specs = list(function.structured_input_signature[1].values())
    if len(specs) != 1 or len(function.structured_outputs) != 1:
        raise ServableError(
            f"The signature {name!r} has {len(specs)} inputs and {len(function.structured_outputs)} outputs; "
            "expected one of each",
            place=str(folder),
            remedy=f"Name another with --signature: {', '.join(known)}.",
        )
    (spec,) = specs
    if not (spec.dtype.is_floating or spec.dtype.is_integer):
        raise ServableError(
            f"The signature {name!r} takes {spec.dtype.name}; expected numbers",
            place=str(folder),
            remedy="Name with --signature one that takes tensors: parsing and decoding are not rewritten.",
        )
    if spec.shape.rank is None or any(size is None for size in spec.shape[1:]):
        raise ServableError(
            f"The input of {name!r} has the shape {spec.shape}; expected sizes for all but the batch",
            place=str(folder),
            remedy="Export the model with the shape that it is served with.",
        )
    if spec.shape[0] is not None:
        raise ServableError(
            f"The input of {name!r} has the shape {spec.shape}; expected a batch of any size",
            place=str(folder),
            remedy="Export the model with None for the batch: examples come one by one, and in batches.",
        )
    return function, spec, next(iter(function.structured_outputs))


def _count(function: Any, output: str, folder: Path) -> int:
    shape = function.structured_outputs[output].shape
    if shape.rank != 2 or shape[1] is None:
        raise ServableError(
            f"The output {output!r} has the shape {shape}; expected (batch, classes)", place=str(folder)
        )
    if shape[1] < 2:
        # Of one column the top class is always the same, whatever a candidate answers.
        raise ServableError(
            f"The output {output!r} has one column; expected a score for each of two classes or more",
            place=str(folder),
            remedy="Export a signature that gives both probabilities, as tf.concat([1 - p, p], 1).",
        )
    return int(shape[1])
