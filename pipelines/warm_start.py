"""Which trained model a training begins with: the one behind the version in service.

A candidate that evaluation blessed may have been refused afterwards, or taken
out of service: the latest blessed one counts only while nothing was pushed yet.
A model of the very same training (data, settings, code) is not gone on from:
else every identical run would go on from the one before it, and none be cached.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfx.dsl.components.common import resolver

from components.errors import ServableError
from components.serving import manifest
from components.serving_pusher import root as serving_root

_TRAINED_MODEL_ID = "trained_model_id"
_CURRENT_MODEL_ID = "current_model_id"
_BLESSED = "blessed"
_EXAMPLES, _CUSTOM_CONFIG, _BASE_MODEL = "examples", "custom_config", "base_model"


class TrainedModelInServiceStrategy(resolver.ResolverStrategy):
    """Resolves `model` to a trained model, or to none.

    Inputs: `examples` (what is trained on), `model` (all Model artifacts, trained
    and rewritten) and `model_blessing` (all of them) of the pipeline.
    """

    def __init__(self, custom_config: str, serving_root: str) -> None:
        """Args: the Trainer's settings, as they are recorded with its execution; where models are pushed."""
        self._custom_config = custom_config
        self._root = Path(serving_root)

    def resolve_artifacts(self, store: Any, input_dict: dict[str, list[Any]]) -> dict[str, list[Any]] | None:
        examples = {artifact.id for artifact in input_dict[_EXAMPLES]}
        models = {model.id: model for model in input_dict["model"]}
        if serving_root.highest(self._root):
            chosen = self._behind_service(store, models, examples)
        else:
            chosen = self._behind_blessed(store, models, examples, input_dict["model_blessing"])
        return {_EXAMPLES: input_dict[_EXAMPLES], "model": [chosen] if chosen else [], "model_blessing": []}

    def _behind_service(self, store: Any, models: dict[int, Any], examples: set[int]) -> Any:
        """None where it is another pipeline's, or its files are gone."""
        number = serving_root.in_service(self._root)
        folder = None if number is None else serving_root.folder_of(self._root, number)
        try:
            servable = manifest.read(folder).get("servable_id") if folder else None
        except ServableError:
            return None  # pushed by others
        trained = _trained(models, servable)
        if trained is None or not self._is_same_training(store, trained.id, examples):
            return trained
        # What it began with itself makes an identical run the cached one. Where that is gone it would
        # be trained anew in any case.
        began_with = self._began_with(store, trained.id)
        return next((found for item in began_with if (found := _there(models.get(item)))), None) or (
            trained if began_with else None
        )

    def _behind_blessed(
        self, store: Any, models: dict[int, Any], examples: set[int], blessings: list[Any]
    ) -> Any:
        for blessing in sorted(blessings, key=lambda item: item.id, reverse=True):
            if blessing.get_int_custom_property(_BLESSED) != 1:
                continue
            trained = _trained(models, blessing.get_int_custom_property(_CURRENT_MODEL_ID))
            if trained is not None and not self._is_same_training(store, trained.id, examples):
                return trained
        return None

    def _is_same_training(self, store: Any, model_id: int, examples: set[int]) -> bool:
        """Whether a model was trained on these examples with these settings."""
        makers = _makers(store, model_id)
        executions = store.get_executions_by_id(makers)
        told = {item.custom_properties[_CUSTOM_CONFIG].string_value for item in executions}
        return self._custom_config in told and bool(_read(store, makers, _EXAMPLES) & examples)

    def _began_with(self, store: Any, model_id: int) -> list[int]:
        return sorted(_read(store, _makers(store, model_id), _BASE_MODEL))


def _trained(models: dict[int, Any], servable_id: Any) -> Any:
    """The trained model that a servable was rewritten from; None where it is gone."""
    servable = models.get(servable_id)
    return _there(models.get(servable.get_int_custom_property(_TRAINED_MODEL_ID))) if servable else None


def _there(model: Any) -> Any:
    return model if model is not None and Path(model.uri).exists() else None


def _makers(store: Any, model_id: int) -> list[int]:
    """Executions that a model came out of; those that took it from the cache, too."""
    from ml_metadata.proto import metadata_store_pb2

    events = store.get_events_by_artifact_ids([model_id])
    return sorted({item.execution_id for item in events if item.type == metadata_store_pb2.Event.OUTPUT})


def _read(store: Any, executions: list[int], key: str) -> set[int]:
    """Artifacts that executions read under a key."""
    from ml_metadata.proto import metadata_store_pb2

    events = store.get_events_by_execution_ids(executions)
    return {
        item.artifact_id
        for item in events
        if item.type == metadata_store_pb2.Event.INPUT and _key(item) == key
    }


def _key(event: Any) -> str:
    return next((step.key for step in event.path.steps if step.key), "")
