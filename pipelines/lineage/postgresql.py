"""ML Metadata's store for PostgreSQL, made to take texts with backslashes.

ml-metadata 1.17.1 cuts the first and last character off what libpq quotes. A
text with a backslash is quoted as ` E'...'`, so the statement is then broken,
and JSON within JSON, of which TFX's execution properties are full, cannot be
stored. Here a backslash goes to the server as a character of Unicode's private
area, and comes back as a backslash. Fields that have none are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from ml_metadata.metadata_store import metadata_store

BACKSLASH, STAND_IN = "\\", "\ue05c"


class BackslashStore(metadata_store.MetadataStore):
    """Translates texts in every request and every answer."""

    def _call(self, method_name: str, request: Any, response: Any, extra_options: Any = None) -> None:
        translate(request, lambda text: text.replace(BACKSLASH, STAND_IN))
        super()._call(method_name, request, response, extra_options)
        translate(response, lambda text: text.replace(STAND_IN, BACKSLASH))


def translate(message: Any, change: Callable[[str], str]) -> None:
    """Changes all texts in a message, those of inner messages and maps included; not the keys of maps."""
    for field, value in message.ListFields():
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            _translate_map(entry.fields_by_name["value"], value, change)
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
