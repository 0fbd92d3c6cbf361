"""The experiment file's schema and page: as committed, and as strict as the code that reads it."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
import yaml

from pipelines import config, reference
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = reference.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_what_is_committed_is_what_the_code_says() -> None:
    """`make reference` writes both."""
    assert (ROOT / reference.SCHEMA_FILE).read_text() == reference.schema_text()
    assert (ROOT / reference.PAGE_FILE).read_text() == reference.page()


@pytest.mark.parametrize("path", sorted(config.EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_experiments_that_ship_fit_the_schema(path, validator) -> None:
    assert [error.message for error in validator.iter_errors(yaml.safe_load(path.read_text()))] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train.epoch", 3),
        ("train.batch_size", 0),
        ("train.batch_size", "many"),
        ("data.splits", {"by": "colour"}),
        ("model.family", "sound"),
        ("nothing", 1),
    ],
)
def test_what_the_code_refuses_the_schema_refuses(key, value, validator) -> None:
    raw: dict[str, Any] = copy.deepcopy(yaml.safe_load((config.EXPERIMENTS / "digits.yaml").read_text()))
    *parents, last = key.split(".")
    target = raw
    for parent in parents:
        target = target.setdefault(parent, {})
    target[last] = value
    assert list(validator.iter_errors(raw))
    with pytest.raises(config.ConfigError):
        config.from_mapping({"name": "digits", **raw})


def test_every_key_is_on_the_page() -> None:
    page = reference.page()
    schema = reference.json_schema()
    for part in [schema, *schema["$defs"].values()]:
        for key in part.get("properties", {}):
            assert f"| `{key}` |" in page, key
