"""What `headrace candidates` prints."""

from __future__ import annotations

import json

from pipelines.cli.candidates import left_out, print_candidates, too_small
from pipelines.summary import Summary

FIGURES = {
    "size_bytes": 162_000,
    "size_ratio": 0.4,
    "load_ms": 640.0,
    "latency_ms_p50": 1.74,
    "latency_ms_p95": 2.5,
    "latency_ratios": [0.7, 0.8, 0.75],
    "throughput": 4100.0,
    "peak_memory_mb": 443.0,
    "accuracy": 0.98,
    "agreement": 1.0,
    "max_shift": 0.001,
}
ROWS = [
    {"name": "frozen", "state": "judged", "reason": "quicker", "drop_bound": 0.81, "figures": FIGURES,
     "slices": [{"name": "label=3", "examples": 36, "drop_bound": 8.0, "needed": 59},
                {"name": "label=4", "examples": 70, "drop_bound": 4.2, "needed": 0}]},
    {"name": "tf_trt_float16", "state": "cannot_run", "reason": "it cannot run here: there is no GPU",
     "drop_bound": None, "figures": None, "slices": []},
    {"name": "int8_static", "state": "left_out", "reason": "auto leaves it out", "drop_bound": None,
     "figures": None, "slices": []},
]  # fmt: skip
SUMMARY = Summary(candidates=ROWS, chosen="frozen", reason="best latency of 1 qualified")


def test_json_has_every_technique_and_bare_values(capsys) -> None:
    print_candidates(SUMMARY, "json")
    rows = json.loads(capsys.readouterr().out)
    assert [(row["candidate"], row["chosen"], row["state"]) for row in rows] == [
        ("frozen", True, "judged"),
        ("tf_trt_float16", False, "cannot_run"),
        ("int8_static", False, "left_out"),
    ]
    assert (rows[0]["latency_ratio"], rows[0]["size_bytes"], rows[1]["size_bytes"]) == (0.75, 162_000, None)


def test_the_table_says_what_was_left_out_and_what_was_too_small(capsys) -> None:
    print_candidates(SUMMARY, "table")
    out = capsys.readouterr().out
    assert "there is no GPU" in " ".join(out.split())
    assert "Chosen      frozen: best latency of 1 qualified" in out
    assert left_out(ROWS) == ["Left out    int8_static (auto leaves it out)"]
    assert too_small(ROWS, "frozen") == [
        "Too small   to bound a drop there (59 examples needed): label=3 (36)"
    ]


def test_a_run_without_candidates_is_named(tmp_path) -> None:
    """From the command on: the workspace is opened as every command opens one."""
    from click.testing import CliRunner

    from pipelines.cli.candidates import command
    from pipelines.errors import HeadraceError

    result = CliRunner().invoke(command, ["latest", "--workspace", str(tmp_path / "none")])
    assert isinstance(result.exception, HeadraceError)
