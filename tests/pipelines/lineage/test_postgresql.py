"""The translation of backslashes, on ML Metadata's own messages."""

from __future__ import annotations

from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines.lineage.postgresql import BACKSLASH, STAND_IN, translate


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
