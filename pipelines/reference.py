"""The experiment file for editors and readers: a JSON Schema, and a page, from the stages themselves.

    json_schema()       # as docs/experiment.schema.json has it
    page()              # as docs/reference/experiment.md has it

An editor that knows YAML completes and checks an experiment with the line
`# yaml-language-server: $schema=.../docs/experiment.schema.json` at its top.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.config import Experiment

SCHEMA_FILE = Path("docs", "experiment.schema.json")
PAGE_FILE = Path("docs", "reference", "experiment.md")

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BOUNDS = (
    ("minimum", "at least"),
    ("exclusiveMinimum", "above"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "below"),
)


def json_schema() -> dict[str, Any]:
    """The schema of an experiment file, JSON Schema 2020-12."""
    schema = Experiment.model_json_schema()
    # A file's own name stands in for it.
    schema["required"] = [key for key in schema.get("required", ()) if key != "name"]
    # A model without a family is one for images, so that other families must be named.
    for name, part in schema["$defs"].items():
        family = part.get("properties", {}).get("family")
        if family is not None and name != "ImageModel":
            part["required"] = sorted({*part.get("required", ()), "family"})
    return {"$schema": _DIALECT, **_without_titles(schema), "title": "Headrace experiment"}


def _without_titles(node: Any) -> Any:
    """pydantic's titles repeat the keys."""
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _without_titles(item) for key, item in node.items() if key != "title" or not _is_text(item)}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def schema_text() -> str:
    """The schema as the committed file has it."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def page() -> str:
    """The reference page, Markdown."""
    return "\n".join(_lines(json_schema())) + "\n"


def _lines(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "# The experiment file"
    yield ""
    yield "Every key, with its values and its default; `make reference` writes this from the code that reads"
    yield "the file. `headrace run FILE --set train.epochs=5` sets one for a run. Unknown keys are refused."
    parts = schema["$defs"]
    yield from _section("Top level", schema, parts)
    for key, part in schema["properties"].items():
        for name in _references(part):
            yield from _section(_title(key, name, parts), parts[name], parts)
    told = {name for part in schema["properties"].values() for name in _references(part)}
    for name in sorted(_reachable(told, parts) - told):
        yield from _section(name, parts[name], parts)


def _title(key: str, name: str, parts: Mapping[str, Any]) -> str:
    family = parts[name].get("properties", {}).get("family", {}).get("const")
    return f"{key}, of family {family}" if family else key


def _section(title: str, part: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    if part.get("description") and title != "Top level":
        yield " ".join(part["description"].split())
        yield ""
    yield "| key | value | default | |"
    yield "|---|---|---|---|"
    for key, field in part.get("properties", {}).items():
        default = _default(key, field, part)
        text = " ".join(str(field.get("description", "")).split()).replace("|", "\\|")
        yield f"| `{key}` | {_kind(field, parts)} | {default} | {text} |"


def _default(key: str, field: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    if key in part.get("required", ()):
        return "required"
    if "default" not in field or _references(field):
        return ""
    return f"`{json.dumps(field['default'])}`".replace("|", "\\|")


def _kind(field: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    """A value's type, choices and bounds in words."""
    if "$ref" in field:
        return f"see {_name(field)}"
    for together in ("anyOf", "oneOf"):
        if together in field:
            return " or ".join(_kind(option, parts) for option in field[together])
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}), parts)}"
    if field.get("type") == "object":
        values = field.get("additionalProperties")
        return f"name to {_kind(values, parts)}" if isinstance(values, dict) else "names to anything"
    bounds = [f"{word} {field[key]}" for key, word in _BOUNDS if key in field]
    if "pattern" in field:
        bounds.append(f"matches `{field['pattern']}`")
    kind = {"number": "number", "integer": "whole number", "string": "text", "boolean": "true or false"}
    return " ".join([kind.get(field.get("type", ""), field.get("type", "anything")), *bounds]).replace(
        "|", "\\|"
    )


def _references(field: Any) -> list[str]:
    """The parts that a field refers to, in order."""
    if isinstance(field, list):
        return [name for item in field for name in _references(item)]
    if not isinstance(field, dict):
        return []
    own = [_name(field)] if "$ref" in field else []
    return own + [name for key, item in field.items() if key != "discriminator" for name in _references(item)]


def _name(field: Mapping[str, Any]) -> str:
    return str(field["$ref"]).rpartition("/")[2]


def _reachable(names: set[str], parts: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(parts[name])
    return found
