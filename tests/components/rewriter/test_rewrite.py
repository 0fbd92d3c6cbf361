"""The whole rewrite, with candidates that go wrong."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from components import subprocesses
from components.errors import ServableError
from components.rewriter import rewrite, worker
from components.rewriter.choose import Policy, Verdict
from components.rewriter.figures import Figures
from components.serving import runtimes
from components.subprocesses import Limits
from tests.components.rewriter import wrong
from tests.components.rewriter.test_choose import of


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
        "keep": 2,
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
    # The original is no candidate, and not kept as one.
    assert [path.name for path in (report / "candidates").iterdir()] == ["float16"]
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


@pytest.mark.parametrize(
    ("cause", "setting"), [("time", "rewrite.candidate_timeout_s"), ("memory", "rewrite.candidate_memory_mb")]
)
def test_an_original_that_passes_a_limit_names_the_setting(
    contract, tmp_path, monkeypatch, cause, setting
) -> None:
    def fail(*given, **options) -> None:
        raise subprocesses.WorkerFailed("it took longer than 3 s", cause)

    monkeypatch.setattr(subprocesses, "run", fail)
    with pytest.raises(ServableError, match="it took longer than 3 s") as raised:
        rewrite.rewrite(job("/nowhere", contract, "/nowhere", tmp_path, candidates=[]))
    assert setting in raised.value.remedy


def test_a_kill_from_outside_is_no_verdict(contract, tmp_path, monkeypatch) -> None:
    """It would stand in the cache as the candidate's fault; the node fails instead, and is run again."""

    def fail(*given, **options) -> None:
        raise subprocesses.WorkerFailed("its process ended with code -9 (signal 9)", "killed")

    monkeypatch.setattr(subprocesses, "run", fail)
    task = job("/nowhere", contract, "/nowhere", tmp_path)
    for attempt in (rewrite._build, rewrite._judge):
        with pytest.raises(rewrite.CandidateKilledError, match=r"float16 could not be \w+: .*signal 9"):
            attempt(task, "float16")


def test_a_run_off_that_fails_is_told(contract, tmp_path, monkeypatch) -> None:
    """And has the time of all its contenders, with the memory of what is built side by side."""
    given: list[Limits] = []

    def fail(function, task, *, limits: Limits) -> None:
        given.append(limits)
        raise subprocesses.WorkerFailed("it took longer than 30 s", "time")

    monkeypatch.setattr(subprocesses, "run", fail)
    policy = Policy("latency", 1.0, 0.95)
    task = job("/nowhere", contract, "/nowhere", tmp_path, policy=policy, limits=Limits(10.0, 1000.0))
    times, note = rewrite._run_off(task, [of(name, 0.5, 300) for name in ("frozen", "float16", "tflite")])
    assert times == {}
    assert "the run-off between frozen, float16, tflite failed (it took longer than 30 s)" in note
    assert given == [Limits(30.0, 2000.0)]


def test_more_examples_are_asked_for_where_they_would_be_judged(contract, tmp_path) -> None:
    (tmp_path / "identity").mkdir()
    said = tmp_path / "identity" / worker.OF_FILE
    task = job("/nowhere", contract, "/nowhere", tmp_path, max_examples=100)
    for of_split, more in ((100, "enlarge data.splits.validation"), (101, "raise rewrite.max_examples")):
        said.write_text(str(of_split))
        assert rewrite._with_remedies(task).policy.remedies.more == more


def test_the_original_is_asked_for_its_scores_once(
    model_uri, contract, examples_uri, tmp_path, monkeypatch
) -> None:
    """Each candidate is judged beside those that the original's own process has written."""
    # Of the process that a candidate has for itself; put back behind this test.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    task = worker.Task(
        technique="identity",
        model_uri=str(model_uri),
        contract=contract.to_json(),
        folder=tmp_path / "identity",
        original=tmp_path / "identity",
        examples_uri=str(examples_uri),
        split="validation",
        calibration_split="",
        label="label",
        slices=[],
        max_examples=60,
        rounds=1,
    )
    other = replace(task, technique="frozen", folder=tmp_path / "frozen")
    for each in (task, other):
        worker.build(each)
    asked: list[int] = []
    real = runtimes.predict_in_batches

    def counted(runtime, raw, batch_size=64):
        asked.append(len(raw) if runtime.servable.technique == "identity" else 0)
        return real(runtime, raw, batch_size)

    monkeypatch.setattr(runtimes, "predict_in_batches", counted)
    worker.judge(other)  # alone, it still knows nothing of the original
    assert sum(asked) == 60
    unaided = (other.folder / worker.FIGURES_FILE).read_text()
    worker.judge(task)
    asked.clear()
    worker.judge(other)
    assert sum(asked) == 0
    found = [Figures.from_json(text) for text in (unaided, (other.folder / worker.FIGURES_FILE).read_text())]
    assert found[0].agreement == found[1].agreement == 1.0
    assert found[0].max_shift == pytest.approx(found[1].max_shift, abs=1e-6)
    assert len(found[1].latency_ratios) == 1  # the original is timed all the same


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


@pytest.mark.parametrize(("available", "at_a_time"), [(24000.0, 2), (5000.0, 2), (3000.0, 1), (1000.0, 1)])
def test_no_more_is_built_side_by_side_than_fits(monkeypatch, available: float, at_a_time: int) -> None:
    """Else the system would end a build that keeps to its limit, and the node with it."""
    monkeypatch.setattr(rewrite.memory, "available_mb", lambda: available)
    assert rewrite._at_a_time(rewrite.limits(10.0, None)) == at_a_time
