"""ML Metadata's store for PostgreSQL, made to take texts with backslashes, and long ones.

ml-metadata 1.17.1 cuts the first and last character off what libpq quotes. A
text with a backslash is quoted as ` E'...'`, so the statement is then broken,
and JSON within JSON, of which TFX's execution properties are full, cannot be
stored. Here a backslash goes to the server as a character of Unicode's private
area, and comes back as a backslash. Fields that have none are left alone.

Its schema has an index over every text of a property, and PostgreSQL takes no
entry of more than 2,704 bytes in one. Longer custom properties are kept in
parts, whose names end in another such character and a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from ml_metadata.metadata_store import metadata_store

BACKSLASH, STAND_IN = "\\", "\ue05c"
PART, PART_LENGTH = "\ue05d", 600
"""A part's characters take 2,400 bytes at most."""


class BackslashStore(metadata_store.MetadataStore):
    """Translates texts in every request and every answer."""

    def _call(self, method_name: str, request: Any, response: Any, extra_options: Any = None) -> None:
        translate(request, lambda text: text.replace(BACKSLASH, STAND_IN))
        each_map(request, split)
        super()._call(method_name, request, response, extra_options)
        each_map(response, join)
        translate(response, lambda text: text.replace(STAND_IN, BACKSLASH))


def split(properties: Any) -> None:
    """Cuts long texts of custom properties into parts."""
    for name in list(properties):
        text = properties[name].string_value
        if len(text) > PART_LENGTH:
            properties[name].string_value = text[:PART_LENGTH]
            for start in range(PART_LENGTH, len(text), PART_LENGTH):
                part = text[start : start + PART_LENGTH]
                properties[f"{name}{PART}{start // PART_LENGTH}"].string_value = part


def join(properties: Any) -> None:
    """Puts parts together again."""
    parts = [(*name.split(PART), name) for name in properties if PART in name]
    for name, _, part in sorted(parts, key=lambda item: (item[0], int(item[1]))):
        properties[name].string_value += properties[part].string_value
        del properties[part]


def each_map(message: Any, change: Callable[[Any], None]) -> None:
    """Calls `change` with the custom properties of every message in a message."""
    for field, value in message.ListFields():
        if field.name == "custom_properties":
            change(value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and not _is_map(field):
            for inner in value if _repeated(field) else (value,):
                each_map(inner, change)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def translate(message: Any, change: Callable[[str], str]) -> None:
    """Changes all texts in a message, those of inner messages and maps included; not the keys of maps."""
    for field, value in message.ListFields():
        if _is_map(field):
            _translate_map(field.message_type.fields_by_name["value"], value, change)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if _repeated(field) else (value,):
                translate(inner, change)
        elif field.type == FieldDescriptor.TYPE_STRING:
            if _repeated(field):
                value[:] = [change(text) for text in value]
            else:
                setattr(message, field.name, change(value))


def _translate_map(kind: Any, entries: Any, change: Callable[[str], str]) -> None:
    for key in list(entries):
        if kind.type == FieldDescriptor.TYPE_MESSAGE:
            translate(entries[key], change)
        elif kind.type == FieldDescriptor.TYPE_STRING:
            entries[key] = change(entries[key])


def _repeated(field: Any) -> bool:
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)
