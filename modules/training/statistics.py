"""Moving statistics of layers, averaged over replicas.

    statistics = ReplicaStatistics(model, strategy)
    statistics.merge()       # before anything reads them: judging, saving

Each replica updates its own moving mean and variance of batch normalisation
from its own rows. What one device would have is their mean, exactly so for the
mean, since the updates are linear; only one replica's would be saved.
"""

from __future__ import annotations

import keras
import tensorflow as tf


class ReplicaStatistics:
    """The floating non-trainable variables of a model, over the replicas of a strategy."""

    def __init__(self, model: keras.Model, strategy: tf.distribute.Strategy) -> None:
        self._variables = [
            variable.value
            for variable in model.non_trainable_variables
            if tf.as_dtype(variable.dtype).is_floating
        ]
        self._strategy = strategy
        self._means = tf.function(self._reduced, autograph=False)

    def merge(self) -> None:
        """Gives every replica the mean; all workers must call it at the same step."""
        if self._strategy.num_replicas_in_sync == 1 or not self._variables:
            return
        for variable, mean in zip(self._variables, self._means(), strict=True):
            variable.assign(mean)

    def _reduced(self) -> list[tf.Tensor]:
        def replica() -> list[tf.Tensor]:
            context = tf.distribute.get_replica_context()
            values = [tf.identity(variable) for variable in self._variables]
            return list(context.all_reduce(tf.distribute.ReduceOp.MEAN, values))

        results = self._strategy.run(replica)
        return [self._strategy.experimental_local_results(result)[0] for result in results]
