"""Checkpoints on disk: whole ones only, of the same training only."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.train import CheckpointHparams
from modules.training import checkpoints, classifier, identity
from modules.training.checkpoints import Checkpoint, CheckpointStore, collect
from modules.training.state import Standing
from modules.training.steps import StepsResult
from tests.modules.training import small
from tests.modules.training.small import hparams

SAME = {"model": "m", "data": "d"}


def saved(folder: Path, *steps: int, keep: int = 2) -> CheckpointStore:
    store = CheckpointStore(str(folder), identity=SAME, keep=keep)
    for step in steps:
        store.save(Checkpoint(step, {"model/0": np.full(2, step)}, {"epoch": step}))
    store.wait()
    return store


def test_the_latest_comes_back_and_old_ones_go(tmp_path: Path) -> None:
    latest = saved(tmp_path, 1, 2, 30).latest()
    assert latest is not None
    assert (latest.step, latest.position) == (30, {"epoch": 30})
    np.testing.assert_array_equal(latest.arrays["model/0"], [30, 30])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-0000000002", "step-0000000030"]


def test_what_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    store = saved(tmp_path, 1, 2, 3, keep=3)
    (tmp_path / "step-0000000003/position.json").unlink()
    (tmp_path / "step-0000000002/arrays.npz").write_bytes(b"PK\x03\x04 half")
    latest = store.latest()
    assert latest is not None
    assert latest.step == 1


def test_nothing_is_there_at_first_and_after_clearing(tmp_path: Path) -> None:
    store = saved(tmp_path / "new")
    assert store.latest() is None
    store = saved(tmp_path, 4)
    store.save_choices({"xla": {"xla": True}})
    store.clear()
    assert store.latest() is None
    assert store.choices() == {"xla": {"xla": True}}


def test_clearing_takes_parts_along_that_another_process_left(tmp_path: Path) -> None:
    before = saved(tmp_path / "one", 4)
    left = before.part("pretraining")
    left.save(Checkpoint(3, {"a": np.zeros(2)}, {}))
    left.wait()
    after = saved(tmp_path / "one", 5)
    after.clear()
    assert after.latest() is None and after.part("pretraining").latest() is None
    assert not [*tmp_path.rglob("step-*")]


@pytest.mark.parametrize("word", ["model", "data"])
def test_another_trainings_checkpoint_is_refused(tmp_path: Path, word: str) -> None:
    saved(tmp_path, 7)
    other = CheckpointStore(str(tmp_path), identity={**SAME, word: "x"})
    with pytest.raises(TrainingError, match=f"another {word}") as caught:
        other.latest()
    assert str(tmp_path) in caught.value.place
    assert other.choices() == {}


def test_a_checkpoint_that_does_not_fit_names_the_variable() -> None:
    variable = tf.Variable([1.0, 2.0], name="kernel")
    with pytest.raises(TrainingError, match=r"kernel.*shape \(2,\) it holds shape \(3,\)"):
        checkpoints.assign({"model": [variable]}, {"model/0": np.zeros(3)}, "step 1")
    with pytest.raises(TrainingError, match="it holds nothing"):
        checkpoints.assign({"model": [variable]}, {}, "step 1")
    np.testing.assert_array_equal(variable.numpy(), [1.0, 2.0])


def test_a_training_that_begins_anew_leaves_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    """Its own steps are lower, so its checkpoints would be the ones that are removed."""
    store = saved(tmp_path, 998, 999)
    anew = CheckpointHparams(every_steps=2, every_minutes=0.0, resume=False)
    assert classifier.goes_on(store, small.hparams())
    assert not classifier.goes_on(store, small.hparams(checkpoint=anew))
    small.fit(small.hparams(checkpoint=anew), store=store)
    latest = store.latest()
    assert latest is not None and latest.step == 8


def test_a_failed_write_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = CheckpointStore(str(tmp_path / "file"), identity=SAME)
    store.save(Checkpoint(1, {}, {}))
    with pytest.raises(tf.errors.OpError):
        store.wait()


def test_identity_follows_settings_and_data(tmp_path: Path) -> None:
    same = identity.settings_digest(hparams())
    assert identity.settings_digest(hparams(histograms=1, steps_per_call=3)) == same
    assert identity.settings_digest(hparams(learning_rate=0.1)) != same
    file = tmp_path / "a.gz"
    file.write_bytes(b"one")
    first = identity.files_digest([str(tmp_path / "*")])
    file.write_bytes(b"two")
    assert identity.files_digest([str(tmp_path / "*")]) != first


def test_abandoned_trainings_lose_their_checkpoints_and_keep_their_choices(tmp_path: Path) -> None:
    day = 86_400
    for name, age in (("old", 20), ("fresh", 1)):
        store = CheckpointStore(str(tmp_path / "code" / name), identity={})
        store.save(Checkpoint(3, {"model/0": np.zeros(2)}, {}))
        store.wait()
        store.save_choices({"xla": {"xla": True}})
        for path in (tmp_path / "code" / name).rglob("*"):
            os.utime(path, (0, 100 * day - age * day))
    search = tmp_path / "code/search-1/trials"
    search.mkdir(parents=True)
    (search / "oracle.json").touch()
    os.utime(search / "oracle.json", (0, 0))
    removed = collect(str(tmp_path), max_age_days=14, now_s=100 * day)
    assert sorted(removed) == [f"{tmp_path}/code/old/step-0000000003", f"{tmp_path}/code/search-1"]
    assert CheckpointStore(str(tmp_path / "code/old"), identity={}).choices() == {"xla": {"xla": True}}
    assert CheckpointStore(str(tmp_path / "code/fresh"), identity={}).latest() is not None
    assert collect(str(tmp_path / "nothing"), max_age_days=14, now_s=0) == []


def test_a_position_does_not_move_with_the_training() -> None:
    """It is written in the background, while the next steps are summed."""
    standing = Standing(epoch=1, step=7, history={"loss": [0.5]})
    standing.totals.add(StepsResult({"loss": 1.0, "examples": 2.0}, None, (), 0.0, 1))
    position = standing.position()
    before = copy.deepcopy(position)
    standing.totals.add(StepsResult({"loss": 1.0, "examples": 2.0}, None, (), 0.0, 1))
    standing.next_epoch({"loss": 0.25})
    assert position == before
