"""Reads the Examples that ExampleGen wrote, without TensorFlow: a report opens in a second.

for example in read(Path(uri, "Split-validation"), range(3000)):
    example.text("label"), example.raw("image")
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

_LENGTH = struct.Struct("<Q")
_CHECKSUM_BYTES = 4

# tf.train.Example's wire format; importing TensorFlow for it would take five seconds.
_PROTO = """
name: "headrace_example.proto" package: "headrace" syntax: "proto3"
message_type { name: "BytesList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type { name: "Feature"
  field { name: "bytes_list" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".headrace.BytesList" oneof_index: 0 }
  field { name: "float_list" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".headrace.FloatList" oneof_index: 0 }
  field { name: "int64_list" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".headrace.Int64List" oneof_index: 0 }
  oneof_decl { name: "kind" } }
message_type { name: "Features"
  field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".headrace.Features.FeatureEntry" }
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".headrace.Feature" } } }
message_type { name: "Example"
  field { name: "features" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".headrace.Features" } }
"""  # noqa: E501 one field a line


@dataclass(frozen=True)
class Example:
    """One record, and the file that holds it."""

    features: dict[str, list[Any]]
    shard: str

    def raw(self, name: str) -> bytes:
        """The first value of a bytes feature; empty where there is none."""
        value = next(iter(self.features.get(name, ())), b"")
        return value if isinstance(value, bytes) else str(value).encode()

    def text(self, name: str) -> str:
        """The first value of a feature as text; empty where there is none."""
        value = next(iter(self.features.get(name, ())), "")
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


@cache
def _example_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(_PROTO, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("headrace.Example"))


def read(folder: Path, places: Sequence[int]) -> Iterator[Example]:
    """The examples at these places of a split, which rise."""
    wanted = frozenset(places)
    bodies = islice(_all(folder), places[-1] + 1 if places else 0)
    return (Example(_features(body), shard) for place, (body, shard) in enumerate(bodies) if place in wanted)


def _all(folder: Path) -> Iterator[tuple[bytes, str]]:
    for path in sorted(folder.glob("*")):
        with gzip.open(path, "rb") as file:
            while head := file.read(_LENGTH.size + _CHECKSUM_BYTES):
                # gzip has checked the bytes already.
                body = file.read(_LENGTH.unpack(head[: _LENGTH.size])[0])
                file.read(_CHECKSUM_BYTES)
                yield body, path.name


def _features(record: bytes) -> dict[str, list[Any]]:
    parsed = _example_class().FromString(record)
    found = {}
    for name, feature in parsed.features.feature.items():
        kind = feature.WhichOneof("kind")
        found[name] = list(getattr(feature, kind).value) if kind else []
    return found
