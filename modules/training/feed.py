"""What a training reads: the batches of this process, from any step on.

feed = Feed(stream, validation, session)
feed.per_epoch                          # optimizer steps
iterator = feed.iterator(epoch=0, in_epoch=3)
for batch in feed.validation(): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from modules.errors import TrainingError
from modules.input_pipeline import TrainingStream
from modules.training.accumulation import cut
from modules.training.session import Session


class Feed:
    """Cuts the batches of a training and of its validation for this worker.

    Attributes:
        whole: whole batches in an epoch.
        per_epoch: optimizer steps in an epoch; a remainder that cannot give
            each replica a row is left out.
    """

    def __init__(self, stream: TrainingStream, validation: tf.data.Dataset, session: Session) -> None:
        """Takes hold of the data; reads nothing yet.

        Raises:
            TrainingError: there are fewer examples than replicas.
        """
        self._stream, self._validation = stream, validation
        self._hparams, self._placement = session.hparams, session.placement
        _check_examples(stream, session.placement.replicas)
        self.whole, rest = divmod(stream.examples, stream.batch_size)
        self._has_rest = rest >= max(session.placement.replicas, 1)
        self._drops_rest = bool(rest) and not self._has_rest
        self.per_epoch = self.whole + int(self._has_rest)

    def iterator(self, *, epoch: int, in_epoch: int) -> Iterator[Any]:
        """Batches (features, labels) from a step of an epoch, both from 0, to the training's end."""
        batches = self._stream.batches(epoch=epoch, step=in_epoch, epochs=self._hparams.epochs)
        if self._drops_rest:
            replicas = self._placement.replicas
            batches = batches.filter(lambda *batch: tf.shape(tf.nest.flatten(batch)[0])[0] >= replicas)
        return iter(self._local(batches))

    def validation(self) -> tf.data.Dataset:
        """This worker's rows of the validation batches."""
        return self._local(self._validation)

    def _local(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """This worker's rows of each batch."""
        placement = self._placement
        if placement.workers == 1:
            return dataset
        micro_batches = self._hparams.accumulate_steps

        def rows(*batch: Any) -> Any:
            cuts = [cut(batch, index, micro_batches) for index in range(micro_batches)]
            parts = [cut(each, placement.worker, placement.workers) for each in cuts]
            return tf.nest.map_structure(lambda *tensors: tf.concat(tensors, 0), *parts)

        return dataset.map(rows)


def _check_examples(stream: TrainingStream, replicas: int) -> None:
    if stream.examples < max(replicas, 1):
        raise TrainingError(
            "The train split is empty"
            if not stream.examples
            else f"The train split has {stream.examples} examples for {replicas} replicas",
            place="split train",
            remedy="Give it a larger share (data.splits), or more data.",
        )
