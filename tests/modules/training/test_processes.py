"""Two devices, two workers, kills and signals: each in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from modules.errors import TrainingError
from modules.hparams.train import TrainHparams
from modules.training import workers
from tests.modules.training import small
from tests.modules.training.children import SETTINGS

TOLERANCE = 1e-5
FIFTY_FIVE_STEPS = {"examples": 72, "epochs": 11}


def cases() -> Iterator[dict[str, Any]]:
    """Normalisation, accumulation and XLA, each on and off.

    Statistics of batches that are compiled stay each replica's own, which on
    one device is a micro-batch for each replica.
    """
    for norm in (False, True):
        for micro_batches in (1, 2):
            for xla in ("off", "on"):
                two: dict[str, Any] = {"accumulate_steps": micro_batches, "xla": xla}
                one: dict[str, Any] = {"accumulate_steps": micro_batches}
                if norm and xla == "off":
                    two["sync_batch_norm"] = True
                elif norm:
                    one = {"accumulate_steps": 2 * micro_batches}
                yield {"norm": norm, "two": two, "one": one, **FIFTY_FIVE_STEPS}


PAIRWISE = (0, 3, 5, 6)
"""Cases in which any two of the three are seen in every combination."""


@pytest.mark.parametrize(
    "wanted", [PAIRWISE, pytest.param(tuple({*range(8)} - {*PAIRWISE}), marks=pytest.mark.slow)]
)
def test_two_devices_train_as_one(wanted: tuple[int, ...]) -> None:
    chosen = [case for index, case in enumerate(cases()) if index in wanted]
    for case, found in zip(chosen, small.result(small.start("mirrored", chosen)), strict=True):
        assert (found["replicas"], found["steps"]) == (2, 55)
        assert found["weights"] < TOLERANCE, (case, found)
        assert found["loss"] < TOLERANCE, (case, found)
        if case["two"].get("sync_batch_norm") or not case["norm"]:
            assert found["moving"] < TOLERANCE, (case, found)
            assert found["val_loss"] < TOLERANCE, (case, found)


def call_workers(folder: Path, **config: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Trains in two local workers; the chief's weights and report."""
    arguments = SimpleNamespace(custom_config=config, model_run_dir=str(folder))
    workers.run("tests.modules.training.children.worker_fn", arguments, TrainHparams(local_workers=2))
    with np.load(folder / "weights.npz") as arrays:
        weights = [arrays[name] for name in arrays.files]
    return weights, json.loads((folder / "report.json").read_text())


def worker_cases() -> Iterator[Any]:
    """Of the whole matrix one case is always run, and the others with `-m slow`."""
    for index, case in enumerate(cases()):
        always = case["norm"] and case["two"] == {
            "accumulate_steps": 2,
            "xla": "off",
            "sync_batch_norm": True,
        }
        marks = () if always else (pytest.mark.slow,)
        yield pytest.param(case["norm"], case["two"], case["one"], marks=marks, id=f"case-{index}")


@pytest.mark.parametrize(("norm", "two", "one"), list(worker_cases()))
def test_two_workers_train_as_one(tmp_path: Path, norm: bool, two: Any, one: Any) -> None:
    weights, report = call_workers(tmp_path, norm=norm, strategy="auto", epochs=11, **SETTINGS, **two)
    alone, expected = small.fit(small.hparams(epochs=11, **SETTINGS, **one), norm=norm, examples=72)
    assert (report["system"]["strategy"], report["system"]["replicas"]) == ("multi_worker", 2)
    assert report["steps"] == 55
    assert small.difference(weights, small.weights(alone)) < TOLERANCE
    if two.get("sync_batch_norm") or not norm:
        assert report["history"]["val_loss"][-1] == pytest.approx(expected.history["val_loss"][-1], abs=1e-5)


def checkpoint_steps(folder: Path) -> list[int]:
    return [int(path.parent.name.removeprefix("step-")) for path in folder.glob("step-*/position.json")]


def wait_for(condition: Any, timeout_s: float = 600.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.005)


def kill_a_worker(folder: Path) -> None:
    """Kills the last of this process's parent's workers once there is a checkpoint."""
    wait_for(lambda: checkpoint_steps(folder / "state"))
    mine = [
        child
        for child in psutil.Process(os.getppid()).children()
        if child.pid != os.getpid() and "modules.training.workers" in " ".join(child.cmdline())
    ]
    mine[-1].kill()


@pytest.mark.slow
def test_a_killed_worker_is_started_again_and_goes_on(tmp_path: Path) -> None:
    checkpoint = {"every_steps": 5, "every_minutes": 0.0, "keep": 2, "resume": True}
    settings = {"epochs": 20, **SETTINGS}
    pid = os.fork()
    if not pid:  # the one that kills; a thread would share the interpreter with what it watches
        with contextlib.suppress(BaseException):  # the test itself must not go on in here
            kill_a_worker(tmp_path)
        os._exit(0)
    weights, report = call_workers(tmp_path, norm=False, strategy="auto", checkpoint=checkpoint, **settings)
    os.waitpid(pid, 0)
    alone, _ = small.fit(small.hparams(**settings), examples=72)
    assert report["resumed_from_step"] >= 5
    assert report["steps"] == 100
    assert small.difference(weights, small.weights(alone)) < TOLERANCE


def test_a_workers_own_error_is_the_trainers(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no optimizer 'adamv'"):
        call_workers(tmp_path, norm=False, strategy="auto", optimizer="adamv")


DETERMINISTIC = {
    "epochs": 8,
    "deterministic": True,
    "optimizer": "adamw",
    "ema_momentum": 0.9,
}
EVERY_THREE = {"every_steps": 3, "every_minutes": 0.0}


def test_killed_three_times_the_weights_are_the_same_bits(tmp_path: Path) -> None:
    """And so is the history, although calls after a resumption hold other numbers of steps."""
    undisturbed = small.start("train", str(tmp_path / "undisturbed"), DETERMINISTIC, EVERY_THREE)
    folder = tmp_path / "killed"
    for step in (2, 11, 25):
        process = small.start("train", str(folder), DETERMINISTIC, EVERY_THREE)
        wait_for(lambda: process.poll() is not None or max(checkpoint_steps(folder), default=0) >= step)  # noqa: B023
        process.send_signal(signal.SIGKILL)
        process.communicate()
    # On a machine that is busy elsewhere the last may end before its kill.
    ended_by_itself = process.returncode == 0
    last = small.result(small.start("train", str(folder), DETERMINISTIC, EVERY_THREE))
    expected = small.result(undisturbed)
    assert last["report"]["resumed_from_step"] >= 25 or ended_by_itself
    assert last["digest"] == expected["digest"]
    assert last["report"]["history"] == expected["report"]["history"]


def test_sigterm_writes_a_checkpoint_and_exits(tmp_path: Path) -> None:
    settings = {"epochs": 100_000, "early_stopping_patience": 100_000}
    process = small.start("train", str(tmp_path), settings, {"every_minutes": 0.0})
    assert process.stdout is not None
    assert "epoch 1/" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert len(checkpoint_steps(tmp_path)) == 1


def test_recomputing_takes_less_memory() -> None:
    """Peaks of one process, which only grow: recomputed first, then not."""
    recomputed, plain = small.result(small.start("recompute_peaks"))
    assert plain - recomputed > 100, (recomputed, plain)


def test_settings_that_hold_from_the_start_are_given_to_a_process_of_its_own(tmp_path: Path) -> None:
    settings = {"onednn": "off", "intra_op_threads": 1}
    assert workers.wanted(TrainHparams(**settings), {})
    assert not workers.wanted(TrainHparams(**settings), {"TF_CONFIG": "set"})
    assert not workers.wanted(TrainHparams(), {})
    arguments = SimpleNamespace(
        custom_config={"norm": False, "epochs": 1, **settings}, model_run_dir=str(tmp_path)
    )
    workers.run("tests.modules.training.children.worker_fn", arguments, TrainHparams(**settings))
    report = json.loads((tmp_path / "report.json").read_text())
    system = report["system"]
    assert (system["onednn"], system["intra_op_threads"], system["workers"]) == ("off", 1, 1)
