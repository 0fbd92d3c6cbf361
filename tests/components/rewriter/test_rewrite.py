"""The whole rewrite, with candidates that go wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from components import subprocesses
from components.errors import ServableError
from components.rewriter import rewrite, worker
from components.rewriter.choose import Policy, Verdict
from components.serving import runtimes
from components.subprocesses import Limits
from tests.components.rewriter import wrong


def job(model_uri, contract, examples_uri, scratch, **changes) -> rewrite.Job:
    settings = {
        "model_uri": str(model_uri),
        "examples_uri": str(examples_uri),
        "split": "validation",
        "label": "label",
        "calibration_split": "validation",
        "slices": ["label"],
        "contract": contract.to_json(),
        "candidates": ["float16"],
        "target": "tf_serving",
        "policy": Policy("size", 20.0, 0.95),
        "max_examples": 100,
        "limits": Limits(120.0),
        "keep": 1,
        "scratch": scratch,
    }
    return rewrite.Job(**{**settings, **changes})


def test_a_candidate_is_built_judged_chosen_and_laid_out(
    model_uri, contract, examples_uri, records, tmp_path
) -> None:
    scratch, servable, report = (tmp_path / name for name in ("scratch", "servable", "report"))
    for folder in (scratch, servable, report):
        folder.mkdir()
    task = job(model_uri, contract, examples_uri, scratch, candidates=["float16", "no_such"])
    outcome = rewrite.rewrite(task)
    assert outcome.chosen == "float16"
    lost = next(verdict for verdict in outcome.verdicts if verdict.name == "no_such")
    assert not lost.qualified
    assert "it could not be built: KeyError: 'no_such'" in lost.reason
    rewrite.write_servable(task, outcome, str(servable))
    rewrite.write_report(task, outcome, str(report))
    # The judged answers are those of the bytes that go on.
    judged = rewrite.read_judged(str(report))
    answer = runtimes.load(servable).predict(records)
    np.testing.assert_allclose(answer.scores, judged, atol=1e-6)
    written = json.loads((report / "candidates.json").read_text())
    states = {row["name"]: row["state"] for row in written["candidates"]}
    assert list(states)[:3] == ["identity", "float16", "no_such"]
    assert states["no_such"] == "failed"
    assert states["int8_static"] == "left_out"  # never silently absent
    assert [row["name"] for row in written["candidates"][1]["slices"]] == [
        "label=cat",
        "label=dog",
        "label=owl",
    ]
    kept = runtimes.load(report / "candidates" / "float16")
    np.testing.assert_array_equal(kept.predict(records).scores, answer.scores)
    assert written["candidates"][1]["figures"]["examples"] == 60


def test_too_few_examples_keep_the_original(model_uri, contract, examples_uri, tmp_path) -> None:
    task = job(model_uri, contract, examples_uri, tmp_path, policy=Policy("size", 1.0, 0.95))
    outcome = rewrite.rewrite(task)
    assert outcome.chosen == "identity"
    assert "60 examples are too few" in outcome.verdicts[1].reason


def test_an_original_that_cannot_be_loaded_is_an_error(contract, examples_uri, tmp_path) -> None:
    (tmp_path / "scratch").mkdir()
    with pytest.raises(ServableError, match="The trained model itself cannot be served"):
        rewrite.rewrite(job(Path("/nowhere"), contract, examples_uri, tmp_path / "scratch"))


@pytest.mark.parametrize(
    ("build", "limits", "reason"),
    [
        ("hang", Limits(3.0), "it took longer than 3 s"),
        ("crash", Limits(60.0), r"its process ended with code -11 \(signal 11\)"),
        ("swallow", Limits(60.0, memory_mb=2000.0), "it took more than 2000 MiB of memory"),
    ],
)
def test_a_candidate_that_goes_wrong_is_lost_alone(build, limits, reason) -> None:
    with pytest.raises(subprocesses.WorkerFailed, match=reason):
        subprocesses.run(wrong.GOES[build], None, limits=limits)


@pytest.mark.parametrize(
    ("wanted", "tried"),
    [(None, ["frozen", "float16"]), ([], []), (["float16", "identity", "float16"], ["float16"])],
)
def test_each_wanted_candidate_is_built_once(contract, tmp_path, monkeypatch, wanted, tried) -> None:
    """None of them where none is wanted; what pays by the catalogue where nothing is said."""
    built: list[str] = []

    def build(job: rewrite.Job, name: str) -> Verdict:
        built.append(name)
        return Verdict(name, False, "not built here", state="failed")

    monkeypatch.setattr(rewrite, "_build", build)
    with pytest.raises(ServableError):
        rewrite.rewrite(job("/nowhere", contract, "/nowhere", tmp_path, candidates=wanted))
    assert [name for name in sorted(built) if name in ("frozen", "float16")] == sorted(tried)
    assert len(built) == len(set(built))


def test_judged_examples_are_spread_over_the_split(examples_uri, records, tmp_path) -> None:
    """The first ones may be of a few classes: what was ruined in the others would not be seen."""
    task = worker.RunOff({}, str(examples_uri), "validation", 20, 1, tmp_path / "times.json")
    first = worker._asked(tmp_path / worker.ASKED_FILE, task)
    assert first == (records[::3], 60)
    assert worker._asked(tmp_path / worker.ASKED_FILE, task) == first
    (tmp_path / "candidates.json").write_text(json.dumps({"judged_of": 60}))
    np.save(tmp_path / "judged.npy", np.zeros((20, 3)))
    assert rewrite.read_places(str(tmp_path)) == list(range(0, 60, 3))
    (tmp_path / "candidates.json").write_text("{}")
    assert rewrite.read_places(str(tmp_path)) == list(range(20))
