"""What a machine has, and what of it is used."""

from __future__ import annotations

import os

import pytest

from modules.errors import TrainingError
from modules.training import devices
from tests.modules.training.small import hparams


def test_a_containers_quota_counts() -> None:
    cores = len(os.sched_getaffinity(0))
    assert devices.usable_cores("max 100000") == cores
    assert devices.usable_cores("50000 100000") == 1
    assert devices.usable_cores("100000 100000\n") == 1
    assert devices.usable_cores("99900000 100000") == cores


def test_threads_are_shared_among_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "usable_cores", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert devices.threads() == 0  # TensorFlow's own choice is all eight
    assert devices.threads(2) == 4
    assert devices.threads(100) == 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    assert devices.threads() == 8


def test_a_gpu_that_is_not_there_is_one_clear_error() -> None:
    with pytest.raises(TrainingError, match="sees no GPU") as caught:
        devices.configure(hparams(devices="gpu"))
    assert caught.value.place == "train.devices"
    devices.configure(hparams(devices="cpu"))


def test_onednn_is_a_matter_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(devices.ONEDNN, raising=False)
    assert not devices.needs_own_process(hparams())
    assert devices.needs_own_process(hparams(onednn="off"))
    monkeypatch.setenv(devices.ONEDNN, "0")
    assert not devices.needs_own_process(hparams(onednn="off"))
    assert devices.needs_own_process(hparams(onednn="on"))


def test_operations_of_small_steps_run_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, int] = {}

    def note(kind: str, wanted: int, automatic: int) -> None:
        asked[kind] = automatic

    monkeypatch.setattr(devices, "_set_threads", note)
    devices.configure(hparams(), small=True)
    assert asked["intra"] == 1
    devices.configure(hparams(), small=False)
    assert asked["intra"] == devices.threads()
