"""Early stopping, plateau, progress."""

from __future__ import annotations

import keras
import numpy as np

from modules.training.progress import Progress
from modules.training.stopping import LossWatch, Plateau


def test_the_best_weights_come_back() -> None:
    variable = keras.Variable([0.0])
    watch = LossWatch([variable], patience=2)
    for epoch, loss in enumerate([3.0, 1.0, 2.0, 1.0], start=1):
        variable.assign([float(epoch)])
        assert not watch.exhausted
        watch.see(epoch, loss)
    assert watch.exhausted
    assert (watch.best_epoch, watch.best_loss) == (2, 1.0)
    watch.restore()
    np.testing.assert_array_equal(variable.numpy(), [2.0])


def test_a_watch_goes_on_where_it_was_saved() -> None:
    variable = keras.Variable([4.0])
    watch = LossWatch([variable], patience=2)
    watch.see(1, 1.0)
    watch.see(2, 2.0)
    again = LossWatch([keras.Variable([0.0])], patience=2)
    again.load(watch.state(), watch.arrays())
    assert not again.exhausted
    again.see(3, 2.0)
    assert (again.exhausted, again.best_epoch) == (True, 1)


def test_a_loss_that_is_no_number_is_not_better() -> None:
    watch = LossWatch([], patience=1)
    assert not watch.see(1, float("nan"))
    assert watch.exhausted


def test_the_rate_is_lowered_on_a_plateau() -> None:
    plateau = Plateau(patience=2, factor=0.5)
    lowered = [plateau.see(loss) for loss in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0)]
    assert lowered == [False, False, False, True, False, True]
    assert plateau.rate_factor == 0.25
    again = Plateau(patience=2, factor=0.5)
    again.load(plateau.state())
    assert [again.see(2.0), again.see(2.0), again.rate_factor] == [False, True, 0.125]
    never = Plateau(patience=0, factor=0.5)
    assert not any(never.see(1.0) for _ in range(9))


def test_lines_tell_rate_loss_and_time_left() -> None:
    now = [0.0]
    lines: list[str] = []
    progress = Progress(epochs=4, steps_per_epoch=10, echo=lines.append, clock=lambda: now[0])
    progress.begin(0)
    for step in range(5, 11, 5):
        now[0] += 6.0
        progress.step(step, 320, {"loss": 0.5})
    progress.epoch(1, {"loss": 0.5, "val_loss": 0.25})
    assert lines == [
        "epoch 2/4 step 0/10  loss 0.5000  53 examples/s  ETA 0:36",
        "epoch 1/4  loss 0.5000  val_loss 0.2500  53 examples/s  ETA 0:36",
    ]
