"""Learning rates at exact steps."""

from __future__ import annotations

import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.train import ScheduleHparams, TrainHparams
from modules.training import schedules


def rates(steps: list[int], *, epochs: int = 10, steps_per_epoch: int = 10, **changes: object) -> list[float]:
    schedule = ScheduleHparams(**changes)
    hparams = TrainHparams(epochs=epochs, learning_rate=2.0, warmup_fraction=0.0, schedule=schedule)
    rate = schedules.build(hparams, steps_per_epoch)
    return [float(rate(tf.constant(step, tf.int64))) for step in steps]


@pytest.mark.parametrize(
    ("changes", "steps", "expected"),
    [
        ({"name": "constant"}, [0, 50, 99], [2.0, 2.0, 2.0]),
        ({"name": "cosine"}, [0, 50, 100], [2.0, 1.0, 0.0]),
        ({"name": "cosine", "floor": 0.1}, [0, 50, 100], [2.0, 1.1, 0.2]),
        ({"name": "cosine", "restarts": 1}, [0, 25, 50, 75, 100], [2.0, 1.0, 2.0, 1.0, 0.0]),
        ({"name": "exponential", "rate": 0.5, "every": 2.0}, [0, 20, 40], [2.0, 1.0, 0.5]),
        ({"name": "exponential", "rate": 0.5, "every": 5, "unit": "steps"}, [0, 5, 10], [2.0, 1.0, 0.5]),
        ({"name": "polynomial", "power": 2.0}, [0, 50, 100], [2.0, 0.5, 0.0]),
        (
            {"name": "piecewise", "boundaries": (3.0, 6.0), "factors": (0.1, 0.01)},
            [0, 29, 30, 60],
            [2.0, 2.0, 0.2, 0.02],
        ),
        ({"name": "constant", "warmup": 1.0}, [0, 4, 9, 10], [0.2, 1.0, 2.0, 2.0]),
        ({"name": "cosine", "warmup": 20, "unit": "steps"}, [19, 20, 60, 100], [2.0, 2.0, 1.0, 0.0]),
    ],
)
def test_shapes(changes: dict[str, object], steps: list[int], expected: list[float]) -> None:
    assert rates(steps, **changes) == pytest.approx(expected, abs=1e-6)


def test_the_rate_scales_with_the_batch() -> None:
    def peak(rule: str) -> float:
        return schedules.peak_rate(
            TrainHparams(
                learning_rate=0.1, batch_size=64, reference_batch_size=256, learning_rate_scaling=rule
            )
        )

    assert [peak("none"), peak("linear"), peak("square_root")] == pytest.approx([0.1, 0.025, 0.05])


def test_bad_schedules_say_what_is_wrong() -> None:
    with pytest.raises(TrainingError, match="no schedule 'zigzag'"):
        rates([0], name="zigzag")
    with pytest.raises(TrainingError, match="warm-up of 200 steps is longer"):
        rates([0], name="constant", warmup=20.0)
