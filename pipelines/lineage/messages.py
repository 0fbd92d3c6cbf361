"""ML Metadata's messages: properties as plain values and back, states, events, answers of nothing.

values_of(execution.custom_properties)["wall_s"]
set_values(execution, {"wall_s": 0.5})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as pb


def known_or_none(ask: Callable[[], Any]) -> Any:
    """An answer of ML Metadata; None where it knows no such type, for which it raises an error."""
    try:
        return ask()
    except Exception as error:
        if "NotFound" in type(error).__name__:
            return None
        raise


def input_event(execution_id: int, artifact_id: int, role: str, index: int) -> Any:
    """An event by which an artifact has a role in an operation."""
    event = pb.Event(execution_id=execution_id, artifact_id=artifact_id, type=pb.Event.INPUT)
    event.path.steps.add().key = role
    event.path.steps.add().index = index
    return event


def state_of(execution: Any) -> str:
    """`complete`, `cached`, `running`, `failed`, `canceled` or `new`."""
    return str(pb.Execution.State.Name(execution.last_known_state)).lower()


def values_of(properties: Any) -> dict[str, str | int | float]:
    """Properties as plain values."""
    return {
        key: getattr(value, value.WhichOneof("value"))
        for key, value in properties.items()
        if value.WhichOneof("value") in ("string_value", "int_value", "double_value")
    }


def set_values(message: Any, properties: Mapping[str, str | int | float]) -> None:
    """Sets custom properties; others stay."""
    for key, value in properties.items():
        target = message.custom_properties[key]
        if isinstance(value, str):
            target.string_value = value
        elif isinstance(value, int):
            target.int_value = value
        else:
            target.double_value = value
