"""Which trained model a training begins with: the one behind the latest blessed servable.

A model of the very same training (data, settings, code) is passed over: else
every identical run would go on from the one before it, and none be cached.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfx.dsl.components.common import resolver

_TRAINED_MODEL_ID = "trained_model_id"
_CURRENT_MODEL_ID = "current_model_id"
_BLESSED = "blessed"
_EXAMPLES, _CUSTOM_CONFIG = "examples", "custom_config"


class BlessedTrainedModelStrategy(resolver.ResolverStrategy):
    """Resolves `model` to a trained model, or to none.

    Inputs: `examples` (what is trained on), `model` (all Model artifacts, trained
    and rewritten) and `model_blessing` (all of them) of the pipeline.
    """

    def __init__(self, custom_config: str) -> None:
        """Args: the Trainer's settings, as they are recorded with its execution."""
        self._custom_config = custom_config

    def resolve_artifacts(self, store: Any, input_dict: dict[str, list[Any]]) -> dict[str, list[Any]] | None:
        examples = {artifact.id for artifact in input_dict[_EXAMPLES]}
        models = {model.id: model for model in input_dict["model"]}
        chosen: list[Any] = []
        for blessing in sorted(input_dict["model_blessing"], key=lambda item: item.id, reverse=True):
            if blessing.get_int_custom_property(_BLESSED) != 1:
                continue
            servable = models.get(blessing.get_int_custom_property(_CURRENT_MODEL_ID))
            trained = models.get(servable.get_int_custom_property(_TRAINED_MODEL_ID)) if servable else None
            if trained is None or not Path(trained.uri).exists():
                continue
            if not self._is_same_training(store, trained.id, examples):
                chosen = [trained]
                break
        return {_EXAMPLES: input_dict[_EXAMPLES], "model": chosen, "model_blessing": []}

    def _is_same_training(self, store: Any, model_id: int, examples: set[int]) -> bool:
        """Whether a model was trained on these examples with these settings."""
        from ml_metadata.proto import metadata_store_pb2

        event = metadata_store_pb2.Event
        makers = {
            item.execution_id
            for item in store.get_events_by_artifact_ids([model_id])
            if item.type == event.OUTPUT
        }
        executions = store.get_executions_by_id(list(makers))
        told = {item.custom_properties[_CUSTOM_CONFIG].string_value for item in executions}
        if self._custom_config not in told:
            return False
        read = store.get_events_by_execution_ids(list(makers))
        inputs = {item.artifact_id for item in read if item.type == event.INPUT and _key(item) == _EXAMPLES}
        return bool(inputs & examples)


def _key(event: Any) -> str:
    return next((step.key for step in event.path.steps if step.key), "")
