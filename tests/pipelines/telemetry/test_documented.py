"""docs/watching.md names every event with its keys, and every metric with its type and labels."""

from __future__ import annotations

import importlib
import json
import logging
from io import StringIO

import pytest

from components import logs
from pipelines.cli.main import COMMANDS
from pipelines.telemetry.metrics import Metrics
from tests.pipelines.telemetry import documented
from tests.pipelines.telemetry.notices import notices_of_a_run


@pytest.mark.parametrize("state", ["complete", "failed"])
def test_events_of_a_run_have_the_documented_keys(state: str) -> None:
    told = documented.events()
    for notice in notices_of_a_run(state):
        assert set(notice.facts) == told[notice.event], notice.event
        line = json.loads(notice.as_line())
        assert list(line)[:4] == ["time", "level", "event", "message"]
        assert set(line) == {"time", "level", "event", "message", *notice.facts}


@pytest.mark.parametrize(("option", "least"), [("--log-format", 10), ("--metrics-port", 5)])
def test_commands_take_the_options_that_are_documented(option: str, least: int) -> None:
    named = documented.commands(option)
    assert len(named) >= least
    for name in named:
        first, *others = name.split()
        command = importlib.import_module(COMMANDS[first][0]).command
        for other in others or (["run"] if first == "retrain" else []):
            command = command.commands[other]
        assert any(option in parameter.opts for parameter in command.params), name


def test_levels_tell_what_needs_attention() -> None:
    levels = {notice.event: notice.level for notice in notices_of_a_run("failed")}
    assert (levels["run.begun"], levels["node.retrying"], levels["run.ended"]) == ("info", "warning", "error")


def test_every_metric_is_documented() -> None:
    made = {}
    for metric in Metrics("1").registry._collector_to_names:
        (family,) = metric.describe()
        name = f"{family.name}_total" if family.type == "counter" else family.name
        made[name] = (family.type, set(metric._labelnames))
    assert made == documented.metrics()


def test_lines_hold_what_json_holds() -> None:
    line = logs.line(
        "a.b", "Grüße", at=0.25, seconds=float("nan"), path=StringIO, items=(1, {"x": float("inf")})
    )
    told = json.loads(line)
    assert told["time"] == "1970-01-01T00:00:00.250Z"
    assert (told["message"], told["seconds"], told["items"]) == ("Grüße", None, [1, {"x": None}])
    assert "\n" not in line


def test_records_of_logging_become_lines() -> None:
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    logger = logging.Logger("some.module")
    logger.addHandler(handler)
    logger.info("%d up", 3, extra=logs.extra("model.unloaded", model="digits", version=3))
    try:
        raise ValueError("no\nway")
    except ValueError:
        logger.exception("failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["message"], first["model"], first["version"]) == (
        "model.unloaded",
        "3 up",
        "digits",
        3,
    )
    assert set(first) == {"time", "level", "event", "message", *documented.events()["model.unloaded"]}
    assert (second["event"], second["level"], second["logger"]) == ("log", "error", "some.module")
    assert second["exception"].endswith("ValueError: no\nway")
