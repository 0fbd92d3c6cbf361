"""What `train.distill`, `train.prune` and `train.quantize_aware` add to any family's training.

compression = Compression(model, hparams.train, class_names, replicas=1)
compression.extensions, compression.finish(served)
"""

from __future__ import annotations

from collections.abc import Sequence

import keras

from modules.hparams.train import TrainHparams
from modules.training import distill
from modules.training.extensions import Extension
from modules.training.prune import Pruning
from modules.training.quantize_aware import QuantizeAware


class Compression:
    """The extensions of one training, and what they do to the model in the end."""

    def __init__(
        self,
        model: keras.Model,
        hparams: TrainHparams,
        class_names: Sequence[str],
        *,
        replicas: int,
        encoded: distill.Encoded = distill.ANYHOW,
    ) -> None:
        """Call in the strategy's scope, after the model was built.

        Args:
            model: with the layers frozen that rest while this is at work.
            hparams: `epochs` are those of that part of the training.
            class_names: in the order of the scores.
            replicas: of the strategy.
            encoded: how the student's inputs come from raw Examples.

        Raises:
            TrainingError: what `Teacher.load`, `Pruning` and `QuantizeAware` raise.
        """
        self.extensions: list[Extension] = []
        self._pruning: Pruning | None = None
        if hparams.distill is not None:
            shape = model.inputs[0].shape[1:]
            teacher = distill.Teacher.load(hparams.distill, class_names, shape, encoded)
            self.extensions.append(distill.extend(model, teacher, hparams.distill))
        if hparams.prune is not None:
            self._pruning = Pruning(model, hparams.prune, epochs=hparams.epochs)
            self.extensions.append(self._pruning.extension)
        if hparams.quantize_aware is not None:
            aware = QuantizeAware(model, hparams.quantize_aware, epochs=hparams.epochs, replicas=replicas)
            self.extensions.append(aware.extension)

    def finish(self, served: keras.Model) -> keras.Model:
        """The float32 model as it is exported."""
        return served if self._pruning is None else self._pruning.finish(served)
