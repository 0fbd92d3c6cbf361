"""Classes as Transform counts them: ids in its graph, and names with their frequency behind it.

ids = class_ids(labels)                      # in a preprocessing_fn
classes = read(transform_output)             # in a trainer
classes.names, classes.counts
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf
import tensorflow_transform as tft

from modules import contract
from modules.errors import TrainingError

# What TFT writes for the spaces of a value, where a line also holds how frequent it is.
_SPACE = "__SPACE__"


@dataclass(frozen=True)
class Classes:
    """The classes of the training split.

    Attributes:
        names: by id.
        counts: training examples of each; None where Transform did not write them.
    """

    names: Sequence[str]
    counts: Sequence[int] | None


def class_ids(labels: tf.Tensor) -> tf.Tensor:
    """Index of each label among the training split's, the most frequent first; -1 for any other.

    Call in a `preprocessing_fn`: the vocabulary and its counts come from one full pass.

    Args:
        labels: (B,) string.

    Returns:
        (B,) int64.
    """
    return tft.compute_and_apply_vocabulary(
        labels, default_value=-1, vocab_filename=contract.LABEL_COUNTS, store_frequency=True
    )


def read(transform: tft.TFTransformOutput) -> Classes:
    """What `class_ids` wrote, or a plain vocabulary `label` of somebody else's `preprocessing_fn`.

    Raises:
        TrainingError: a label is no UTF-8 text.
    """
    if transform.vocabulary_file_by_name(contract.LABEL_COUNTS) is None:
        plain = transform.vocabulary_by_name(contract.LABEL_VOCABULARY)
        return Classes([_text(name) for name in plain], None)
    lines = [_text(line) for line in transform.vocabulary_by_name(contract.LABEL_COUNTS)]
    pairs = [line.partition(" ") for line in lines]
    return Classes([name.replace(_SPACE, " ") for _, _, name in pairs], [int(count) for count, _, _ in pairs])


def _text(label: bytes) -> str:
    try:
        return label.decode()
    except UnicodeDecodeError as error:
        raise TrainingError(
            f"A label is no UTF-8 text: {label!r}",
            place="data.label",
            remedy="Write the labels in UTF-8; of a table, data.encoding sets the encoding that it has.",
        ) from error
