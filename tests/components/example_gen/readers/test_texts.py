"""Texts and labels from CSV, TSV and JSON Lines: bytes as they stand, blank ones refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.errors import DataError
from components.example_gen import check
from components.example_gen.readers import column_kinds, open_reader
from components.example_gen.request import FeatureRule, Request, Source, SplitPlan
from tests.components.example_gen.readers.test_tables import as_row

RULES = (FeatureRule("question", "text"), FeatureRule("kind", "string"))
PAIR = (FeatureRule("a", "text"), FeatureRule("b", "text"), FeatureRule("kind", "string"))


def read(path: Path, data_format: str, rules=RULES, missing=(), **options: str):
    """Rows as {feature: value}, and faults as (number, reason)."""
    plan = SplitPlan("hash", (("train", 6), ("validation", 2), ("test", 2)))
    source = Source(str(path))
    request = Request(
        (source,), data_format, plan, rules, "kind", options=options, missing_values=tuple(missing)
    )
    batches = list(open_reader(request, column_kinds(request))(source))
    rows = [as_row(record) for batch in batches for _, record in batch.records]
    return rows, sorted((fault.number, fault.reason) for batch in batches for fault in batch.faults)


@pytest.fixture
def write(tmp_path):
    def go(content: str | bytes, name: str = "a.csv", encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return go


def lines(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def test_texts_and_labels_are_bytes_even_where_they_look_like_numbers(write) -> None:
    expected = [{"question": b"42", "kind": b"0"}, {"question": "wie groß?".encode(), "kind": b"1"}]
    assert read(write("question,kind\n42,0\nwie groß?,1\n"), "csv") == (expected, [])
    tabbed = write("question\tkind\n42\t0\nwie groß?\t1\n", "a.tsv")
    assert read(tabbed, "csv", delimiter="\t") == (expected, [])
    objects = write(lines({"question": 42, "kind": 0}, {"question": "wie groß?", "kind": 1}), "a.jsonl")
    assert read(objects, "jsonl") == (expected, [])
    # Where all of a column are numbers it is bytes all the same.
    assert read(write("question,kind\n1,2\n"), "csv")[0] == [{"question": b"1", "kind": b"2"}]


def test_blank_texts_are_bad_records(write) -> None:
    faults = [(1, "column 'question' is blank"), (2, "column 'question' has no value")]
    assert read(write("question,kind\nx,a\n \t ,b\n,c\nü,d\n"), "csv") == (
        [{"question": b"x", "kind": b"a"}, {"question": "ü".encode(), "kind": b"d"}],
        faults,
    )
    rows = ({"question": "x", "kind": "a"}, {"question": " ", "kind": "b"}, {"kind": "c"})
    assert read(write(lines(*rows), "a.jsonl"), "jsonl")[1] == faults


def test_either_text_of_a_pair_may_be_bad(write) -> None:
    rows, faults = read(write("a,b,kind\nx,y,1\nx, ,1\n ,y,0\n"), "csv", PAIR)
    assert rows == [{"a": b"x", "b": b"y", "kind": b"1"}]
    assert faults == [(1, "column 'b' is blank"), (2, "column 'a' is blank")]


def test_a_list_is_no_text(write) -> None:
    rows = ({"question": ["x", "y"], "kind": "a"}, {"question": ["z"], "kind": "a"})
    found, faults = read(write(lines(*rows), "a.jsonl"), "jsonl")
    assert found == [{"question": b"z", "kind": b"a"}]
    assert faults == [(0, "column 'question' should hold one value, not a list")]


@pytest.mark.parametrize("data_format", ["csv", "jsonl"])
def test_bytes_that_are_no_utf8_are_one_bad_record(write, data_format: str) -> None:
    table = b"question,kind\ngood,a\nZ\xfcrich,b\ngood,c\n"
    objects = (
        b'{"question": "good", "kind": "a"}\n{"question": "Z\xfcrich"}\n{"question": "c", "kind": "c"}\n'
    )
    path = write(table if data_format == "csv" else objects, f"a.{data_format}")
    rows, faults = read(path, data_format)
    assert [row["kind"] for row in rows] == [b"a", b"c"]
    in_table = "column 'question' is no UTF-8 text (data.encoding sets another)"
    reason = in_table if data_format == "csv" else "a line is no utf-8 text"
    assert faults == [(1, reason)]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16"])
def test_other_encodings_come_out_as_utf8(write, encoding: str) -> None:
    expected = [{"question": "Zürich".encode(), "kind": b"a"}] * 2
    table = write("question,kind\nZürich,a\nZürich,a\n", encoding=encoding)
    assert read(table, "csv", encoding=encoding) == (expected, [])
    row = {"question": "Zürich", "kind": "a"}
    objects = write(lines(row, row), "a.jsonl", encoding)
    assert read(objects, "jsonl", encoding=encoding) == (expected, [])


def test_a_byte_order_mark_is_no_part_of_the_first_object(write) -> None:
    path = write("\ufeff" + lines({"question": "x", "kind": "a"}), "a.jsonl")
    assert read(path, "jsonl") == ([{"question": b"x", "kind": b"a"}], [])


def test_half_a_character_of_utf16_is_an_error_of_the_file(write) -> None:
    path = write(lines({"question": "x", "kind": "a"}).encode("utf-16")[:-1], "a.jsonl")
    with pytest.raises(DataError, match="cannot be read as JSON Lines"):
        read(path, "jsonl", encoding="utf-16")


def test_texts_can_stand_for_missing_cells(write) -> None:
    label_only = (FeatureRule("kind", "string"),)
    path = write("kind,amount,name\na,nan,NA\nb,1,nan\nnan,2,x\n")
    rows, faults = read(path, "csv", label_only, missing=("nan", "NA"))
    assert rows == [
        {"kind": b"a", "amount": None, "name": None},
        {"kind": b"b", "amount": 1, "name": None},
    ]
    assert faults == [(2, "column 'kind' has no value")]
    objects = write(lines({"kind": "a", "name": "nan"}, {"kind": "b", "name": "x"}), "a.jsonl")
    rows, _ = read(objects, "jsonl", label_only, missing=("nan",))
    assert rows == [{"kind": b"a", "name": None}, {"kind": b"b", "name": b"x"}]


def test_texts_in_records_are_checked_alike(make_example) -> None:
    rules = (FeatureRule("question", "text"),)
    for value, reason in ((b"x", None), (b" ", "feature 'question' is blank")):
        assert check.fault(make_example(question=value), rules) == reason
    assert check.fault(make_example(question=b"\xff"), rules) == "feature 'question' is no UTF-8 text"
    wrong = "feature 'question' should hold bytes; received integers"
    assert check.fault(make_example(question=1), rules) == wrong
