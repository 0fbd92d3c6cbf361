"""Spans, versions and windows."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from pipelines import spans
from pipelines.errors import ConfigError, InputError


@pytest.fixture
def make(tmp_path):
    def go(*names: str) -> Path:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return tmp_path

    return go


def chosen(pattern: str, **settings) -> list[tuple[int, int, str]]:
    wanted = {"span": None, "count": 1, **settings}
    return [
        (item.span, item.version, Path(item.path).name)
        for item in spans.window(spans.find(pattern), pattern=pattern, **wanted)
    ]


def test_the_latest_span_in_its_newest_version(make) -> None:
    root = make("s1/v1/a.csv", "s2/v1/a.csv", "s2/v10/b.csv", "s2/v9/c.csv", "other/v1/d.csv")
    assert chosen(f"{root}/s{{SPAN}}/v{{VERSION}}/*.csv") == [(2, 10, "b.csv")]


def test_a_given_span_and_a_window_before_it(make) -> None:
    root = make(*(f"{span}.csv" for span in (1, 2, 4, 5, 7)))
    pattern = f"{root}/{{SPAN}}.csv"
    assert [item[0] for item in chosen(pattern, span=5, count=3)] == [2, 4, 5]
    assert [item[0] for item in chosen(pattern, count=9)] == [1, 2, 4, 5, 7]


def test_days_are_spans(make) -> None:
    root = make("2024-02-28.csv", "2024-02-29.csv", "2024-03-01.csv")
    days = [item[0] for item in chosen(f"{root}/{{YYYY}}-{{MM}}-{{DD}}.csv", count=3)]
    assert days == [(date(2024, 2, 28) - date(1970, 1, 1)).days + offset for offset in range(3)]


def test_zero_padded_spans_and_folders(make) -> None:
    root = make("span-0007/a.csv", "span-0008/a.csv")
    assert chosen(f"{root}/span-{{SPAN}}") == [(8, 0, "span-0008")]


@pytest.mark.parametrize("pattern", ["x/{YYYY}/*", "x/{VERSION}/*", "x/{SPAN}/{YYYY}{MM}{DD}"])
def test_patterns_that_say_too_little_or_too_much(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"Expected \{SPAN\}"):
        spans.find(pattern)


def test_spans_that_are_not_there(make) -> None:
    root = make("1.csv")
    with pytest.raises(InputError, match="There is no span 3"):
        chosen(f"{root}/{{SPAN}}.csv", span=3)
    with pytest.raises(InputError, match="No file matches"):
        chosen(f"{root}/{{SPAN}}.avro")


def test_a_name_that_is_no_day_is_named(tmp_path) -> None:
    (tmp_path / "2026-02-30.csv").touch()
    with pytest.raises(InputError, match="no day of the calendar") as raised:
        spans.find(str(tmp_path / "{YYYY}-{MM}-{DD}.csv"))
    assert raised.value.place == str(tmp_path / "2026-02-30.csv")
