"""The translation of backslashes, on ML Metadata's own messages."""

from __future__ import annotations

from ml_metadata.proto import metadata_store_pb2 as pb
from ml_metadata.proto import metadata_store_service_pb2 as service_pb2

from pipelines.lineage.postgresql import BACKSLASH, STAND_IN, each_map, join, split, translate


def test_all_texts_in_a_message_are_changed_and_come_back() -> None:
    execution = pb.Execution(name="a\\b", type_id=3)
    execution.custom_properties["te\\xt"].string_value = '{"a": "\\n"}'
    execution.custom_properties["number"].int_value = 4
    event = pb.Event(execution_id=1)
    event.path.steps.add().key = "c\\d"
    event.path.steps.add().index = 0
    for message in (execution, event):
        before = message.SerializeToString(deterministic=True)
        translate(message, lambda text: text.replace(BACKSLASH, STAND_IN))
        assert message.SerializeToString(deterministic=True) != before
        translate(message, lambda text: text.replace(STAND_IN, BACKSLASH))
        assert message.SerializeToString(deterministic=True) == before


def test_names_of_properties_stay() -> None:
    execution = pb.Execution()
    execution.custom_properties["te\\xt"].string_value = "x\\y"
    translate(execution, lambda text: text.replace(BACKSLASH, STAND_IN))
    assert dict(execution.custom_properties)["te\\xt"].string_value == f"x{STAND_IN}y"


def test_long_custom_properties_are_kept_in_parts() -> None:
    request = service_pb2.PutExecutionsRequest()
    execution = request.executions.add()
    texts = {
        "short": "x",
        "exact": "y" * 600,
        "long": "".join(map(str, range(2000))),
        "wide": "\U0001f600" * 1500,
    }
    for name, text in texts.items():
        execution.custom_properties[name].string_value = text
    execution.custom_properties["number"].int_value = 7
    before = execution.SerializeToString(deterministic=True)
    each_map(request, split)
    sizes = [len(value.string_value.encode()) for value in execution.custom_properties.values()]
    assert max(sizes) <= 2400
    assert len(sizes) > 10
    each_map(request, join)
    assert execution.SerializeToString(deterministic=True) == before
