"""Charts, the chain's layout, markup, and reading records without TensorFlow."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import pytest

from pipelines.report import charts, drawing, graph, judged, records
from pipelines.report.markup import Markup, facts, join, table, tag
from tests.conftest import ROOT
from tests.pipelines.report.conftest import LABELS, small_lineage, write_records


def test_markup_escapes_all_but_markup() -> None:
    assert tag("p", "a < b", tag("b", 3), None, class_="x", aria_label='"') == (
        '<p class="x" aria-label="&quot;">a &lt; b<b>3</b></p>'
    )
    assert tag("img", src="data:,", hidden=True, alt=None) == '<img src="data:," hidden>'
    assert tag("rect", x=1.50, y=2.0) == '<rect x="1.5" y="2"></rect>'
    assert isinstance(join(["<"]), Markup) and join(["<"]) == "&lt;"


def test_columns_of_numbers_go_to_the_right() -> None:
    html = table(
        ("name", "n", "share", "text"), [("a", "1,234", "5%", "x"), ("b", "-", "", "2")], caption="c"
    )
    assert re.findall(r'<th scope="col"( class="number")?>', html) == [
        "",
        ' class="number"',
        ' class="number"',
        "",
    ]
    with pytest.raises(ValueError, match=r"shorter|longer"):
        table(("name", "n"), [("a", 1, 2)], caption="c")


def test_facts_leave_out_what_is_not_known() -> None:
    assert facts([("a", None), ("b", ""), ("c", 0)]) == "<dl><div><dt>c</dt><dd>0</dd></div></dl>"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 408, [0, 100, 200, 300, 400, 500]),
        (0.36, 2.3, [0, 0.5, 1, 1.5, 2, 2.5]),
        (5, 5, [2, 3, 4, 5, 6, 7, 8]),
        (0, 0, [-0.6, -0.4, -0.2, 0, 0.2, 0.4, 0.6]),
    ],
)
def test_ticks_are_round_and_cover_the_range(low, high, expected) -> None:
    assert charts.ticks(low, high) == pytest.approx(expected)


def test_any_range_has_a_handful_of_ticks() -> None:
    for exponent in range(-9, 10):
        for factor in (1.0, 1.7, 3.3, 9.9):
            high = factor * 10.0**exponent
            found = charts.ticks(0, high)
            assert 4 <= len(found) <= 9
            assert found[0] == 0 and found[-1] >= high * (1 - 1e-9)


def test_lines_pass_over_what_is_not_finite() -> None:
    svg = charts.lines({"loss": [1.0, math.nan, 0.5], "val": [2.0]}, title="Loss", mark=3)
    first, second = re.findall(r'<polyline points="([^"]*)"', svg)
    assert (len(first.split()), len(second.split())) == (2, 1)
    assert "nan" not in svg and "loss, epoch 3: 0.5000" in svg and ">kept<" in svg
    assert "no finite values" in charts.lines({"loss": [math.nan]}, title="Loss")


def test_scatter_marks_the_chosen_and_the_refused() -> None:
    points = [charts.Point("a", 1, 1, "90 %", chosen=True), charts.Point("b", 2, 1, hollow=True)]
    svg = charts.scatter(points, x="kB", y="ms", title="Candidates")
    assert svg.count('class="ring"') == 1 and svg.count('class="hollow"') == 1
    heights = [
        float(y) for y in re.findall(r'<text x="[\d.]+" y="([\d.]+)" text-anchor="(?:start|end)">[ab]', svg)
    ]
    assert abs(heights[0] - heights[1]) >= 16  # labels at one height are moved apart


def test_rows_follow_the_longest_way() -> None:
    pairs = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "d")]
    assert drawing.rows(["a", "b", "c", "d", "e"], pairs) == [["a", "e"], ["b", "d"], ["c"]]
    assert drawing.without_implied(pairs) == [("a", "b"), ("b", "c"), ("a", "d")]


def test_the_chain_links_every_node(full_view) -> None:
    svg = graph.chain(full_view)
    assert sorted(re.findall(r'href="#node-(\w+)"', svg)) == sorted(full_view.nodes)
    assert "StatisticsGen: cached · 1.5 s" in svg
    assert ("Rewriter", "Pusher") in graph.edges(full_view.nodes)


def test_who_only_waits_has_a_dashed_arrow(full_view) -> None:
    """The gate gives Trainer no data."""
    assert ("DataGate", "Trainer") not in graph.edges(full_view.nodes)
    assert graph.waits(full_view) == [
        ("ExampleGen", "Trainer"),
        ("DataGate", "Trainer"),
        ("Rewriter", "Pusher"),
    ]
    assert graph.chain(full_view).count('class="arrow dashed"') == 1


def test_a_lineage_shows_executions_and_what_is_at_its_ends() -> None:
    found = small_lineage()
    svg = graph.lineage(found)
    assert sorted(re.findall(r'href="#lineage-(\w+)"', svg)) == ["a1", "a3", "a4", "e7", "e8", "e9"]
    assert graph.size(found) == 6
    assert svg.count('class="arrow"') == 4 and svg.count('class="arrow dashed"') == 1  # the baseline


def test_arrows_over_several_rows_cross_no_box() -> None:
    boxes = [drawing.Box(name, name, "", f"#{name}") for name in "abcdx"]
    arrows = [drawing.Arrow(*pair) for pair in ("ab", "bc", "cd", "ax", "xd")]
    svg = drawing.draw(boxes, arrows, name="t", label="t")
    spans = {
        name: (float(x), float(y))
        for x, y, name in re.findall(r'<rect x="([-\d.]+)" y="([\d.]+)"[^>]*></rect><text[^>]*>(\w)', svg)
    }
    assert len(spans) == 5
    for way in re.findall(r'<path d="(M[^"]*)" class="arrow"', svg):
        points = [tuple(map(float, pair.split(","))) for pair in re.findall(r"-?\d+,-?\d+", way)]
        for x, y in points:
            inside = [
                name
                for name, (left, top) in spans.items()
                if left < x < left + drawing.BOX_W and top + 1 < y < top + drawing.BOX_H - 1
            ]
            assert inside == []


def test_examples_as_tensorflow_writes_them(tmp_path, make_example, write_tfrecord) -> None:
    written = [make_example(label="a", size=[1, 2], share=0.5), make_example(label="b", raw=b"\xff\x00")]
    write_tfrecord(tmp_path / "Split-x/data_tfrecord-000007-00000.gz", written, "GZIP")
    first, second = records.read(tmp_path / "Split-x", range(10))
    assert first.features == {"label": [b"a"], "size": [1, 2], "share": [0.5]}
    assert (first.text("label"), first.text("size"), first.raw("missing")) == ("a", "1", b"")
    assert second.raw("raw") == b"\xff\x00"
    assert first.shard == "data_tfrecord-000007-00000.gz"
    (last,) = records.read(tmp_path / "Split-x", [1])
    assert last == second


def test_records_of_several_shards_come_in_file_order(tmp_path, make_example) -> None:
    for shard in (1, 0):
        write_records(tmp_path / f"data_tfrecord-00000{shard}-00000.gz", [make_example(label=str(shard))])
    assert [example.text("label") for example in records.read(tmp_path, range(5))] == ["0", "1"]


def test_mistakes(full_view) -> None:
    found = judged.read(full_view)
    assert found is not None
    assert (found.total, found.wrong) == (len(LABELS), 1)
    (mistake,) = found.mistakes
    assert (mistake.label, mistake.predicted, mistake.origin) == ("<b>x</b>", "0", "/d/part-0.csv")
    assert mistake.image.startswith("data:image/png;base64,")


def test_bytes_that_are_no_image_have_no_thumbnail() -> None:
    assert judged._thumbnail(b"GIF89a but not really") == ""
    assert judged._thumbnail(b"") == ""


def test_a_report_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "import pipelines.report.write, pipelines.report.judged, numpy, PIL.Image\n"
        "heavy = [n for n in ('tensorflow', 'tfx', 'apache_beam', 'keras') if n in sys.modules]\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
