"""What a run is compared with: an earlier blessed model, and earlier data.

TFX's LatestBlessedModelStrategy makes the second identical run evaluate and
push again, because the run's own model has become the baseline. This one
passes over models that come from the candidate's own trained model, so that
identical runs resolve to the same baseline, and are fully cached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfx.dsl.components.common import resolver

_TRAINED_MODEL_ID = "trained_model_id"
_CURRENT_MODEL_ID = "current_model_id"
_BLESSED = "blessed"
_GATE_INPUT, _GATE_OUTPUT = "statistics", "report"


def on_this_machine(artifact: Any) -> bool:
    """Whether an artifact's files are still there."""
    return Path(artifact.uri).exists()


class OtherBlessedModelStrategy(resolver.ResolverStrategy):
    """Resolves `model` to the latest blessed servable of another trained model, or to none.

    Inputs: `candidate` (one servable), `model` (all Model artifacts) and
    `model_blessing` (all ModelBlessing artifacts) of the pipeline.
    """

    def __init__(self, present: Callable[[Any], bool] = on_this_machine) -> None:
        """With `present`, which says whether an artifact's files can still be read."""
        self._present = present

    def resolve_artifacts(self, store: Any, input_dict: dict[str, list[Any]]) -> dict[str, list[Any]] | None:
        candidate = input_dict["candidate"][0]
        own = candidate.get_int_custom_property(_TRAINED_MODEL_ID)
        models = {model.id: model for model in input_dict["model"]}
        chosen: list[Any] = []
        for blessing in sorted(input_dict["model_blessing"], key=lambda item: item.id, reverse=True):
            if blessing.get_int_custom_property(_BLESSED) != 1:
                continue
            model = models.get(blessing.get_int_custom_property(_CURRENT_MODEL_ID))
            # A model whose files were removed can no longer be compared with.
            if model is None or not self._present(model):
                continue
            if model.get_int_custom_property(_TRAINED_MODEL_ID) != own:
                chosen = [model]
                break
        return {"candidate": [candidate], "model": chosen, "model_blessing": []}


class OtherStatisticsStrategy(resolver.ResolverStrategy):
    """Resolves `statistics` to the latest that are older than `current` and passed the gate, or to none.

    Older, so that the answer stays the same however often a run is repeated.
    Passed, because data that the gate refused would else be what the next data
    are held against: a second day of the same drift would pass.
    """

    def __init__(self, present: Callable[[Any], bool] = on_this_machine) -> None:
        """With `present`, which says whether an artifact's files can still be read."""
        self._present = present

    def resolve_artifacts(self, store: Any, input_dict: dict[str, list[Any]]) -> dict[str, list[Any]] | None:
        current = input_dict["current"][0]
        older = [item for item in input_dict["statistics"] if item.id < current.id and self._present(item)]
        passed = _passed_the_gate(store, [item.id for item in older])
        latest = max((item for item in older if item.id in passed), key=lambda item: item.id, default=None)
        return {"current": [current], "statistics": [latest] if latest else []}


def _passed_the_gate(store: Any, statistics: Sequence[int]) -> set[int]:
    """Those statistics that a gate took and, by the record, did not stop on.

    A gate is what takes statistics and gives a report. Kubeflow's store knows
    no classes of nodes, so these names are all that both stores have of it.
    """
    from ml_metadata.proto import metadata_store_pb2 as pb

    if not statistics:
        return set()
    events = store.get_events_by_artifact_ids(list(statistics))
    taken = [item for item in events if item.type == pb.Event.INPUT and _key(item) == _GATE_INPUT]
    readers = {item.execution_id for item in taken}
    if not readers:
        return set()
    states = (pb.Execution.COMPLETE, pb.Execution.CACHED)
    ended = {item.id for item in store.get_executions_by_id(list(readers)) if item.last_known_state in states}
    given = store.get_events_by_execution_ids(list(readers))
    gates = {
        item.execution_id for item in given if item.type == pb.Event.OUTPUT and _key(item) == _GATE_OUTPUT
    }
    return {item.artifact_id for item in taken if item.execution_id in ended & gates}


def _key(event: Any) -> str:
    return next((step.key for step in event.path.steps if step.key), "")
