"""Learning rates over steps.

    schedule = build(hparams, steps_per_epoch=17)
    schedule(tf.constant(3))        # () float32

Each schedule is a shape over the share of its cycle that has passed, times the
peak; the warm-up is a line from zero. Cosine and restarts are those of
Loshchilov and Hutter (2017, arXiv:1608.03983).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.train import ScheduleHparams, TrainHparams

Schedule = Callable[[tf.Tensor], tf.Tensor]
Shape = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""(steps since the cycle began, share of the cycle in [0, 1]) -> share of the peak."""


def build(hparams: TrainHparams, steps_per_epoch: int) -> Schedule:
    """A function from the number of finished steps, () integer, to the rate, () float32.

    Raises:
        TrainingError: no schedule of that name, or a warm-up longer than the training.
    """
    schedule = hparams.schedule
    if schedule.name not in SHAPES:
        raise TrainingError(
            f"There is no schedule {schedule.name!r}",
            place="train.schedule.name",
            remedy=f"Known: {', '.join(sorted(SHAPES))}.",
        )
    unit = steps_per_epoch if schedule.unit == "epochs" else 1
    total = hparams.epochs * steps_per_epoch
    warmup = warmup_steps(hparams, steps_per_epoch)
    peak = peak_rate(hparams)
    cycle = max((total - warmup) / (schedule.restarts + 1), 1.0)
    shape = SHAPES[schedule.name](schedule, unit)

    def rate(step: tf.Tensor) -> tf.Tensor:
        done = tf.cast(step, tf.float32)
        since = tf.maximum(done - warmup, 0.0)
        # The last cycle does not begin anew where the steps end.
        started = tf.minimum(tf.floor(since / cycle), float(schedule.restarts))
        in_cycle = since - started * cycle
        share = tf.minimum(in_cycle / cycle, 1.0)
        return peak * tf.where(done < warmup, (done + 1) / max(warmup, 1), shape(in_cycle, share))

    return rate


def peak_rate(hparams: TrainHparams) -> float:
    """The learning rate after scaling by the batch size.

    Linear is Goyal et al. (2017, arXiv:1706.02677), square root Krizhevsky
    (2014, arXiv:1404.5997).
    """
    ratio = hparams.batch_size / hparams.reference_batch_size
    scale = {"none": 1.0, "linear": ratio, "square_root": math.sqrt(ratio)}[hparams.learning_rate_scaling]
    return hparams.learning_rate * scale


def warmup_steps(hparams: TrainHparams, steps_per_epoch: int) -> int:
    """Steps of the linear rise.

    Raises:
        TrainingError: it is longer than the training.
    """
    total = hparams.epochs * steps_per_epoch
    if hparams.schedule.warmup is None:
        return int(total * hparams.warmup_fraction)
    unit = steps_per_epoch if hparams.schedule.unit == "epochs" else 1
    steps = round(hparams.schedule.warmup * unit)
    if steps > total:
        raise TrainingError(
            f"The warm-up of {steps} steps is longer than the training of {total}",
            place="train.schedule.warmup",
            remedy="Shorten the warm-up, or raise train.epochs.",
        )
    return steps


def _constant(schedule: ScheduleHparams, unit: int) -> Shape:
    return lambda steps, share: tf.ones_like(share)


def _cosine(schedule: ScheduleHparams, unit: int) -> Shape:
    floor = schedule.floor
    return lambda steps, share: floor + (1 - floor) * 0.5 * (1 + tf.cos(math.pi * share))


def _exponential(schedule: ScheduleHparams, unit: int) -> Shape:
    return lambda steps, share: tf.maximum(
        tf.pow(schedule.rate, steps / (schedule.every * unit)), schedule.floor
    )


def _polynomial(schedule: ScheduleHparams, unit: int) -> Shape:
    floor = schedule.floor
    return lambda steps, share: floor + (1 - floor) * tf.pow(1 - share, schedule.power)


def _piecewise(schedule: ScheduleHparams, unit: int) -> Shape:
    boundaries = tf.constant([boundary * unit for boundary in schedule.boundaries], tf.float32)
    factors = tf.constant([1.0, *schedule.factors], tf.float32)
    return lambda steps, share: tf.gather(factors, tf.reduce_sum(tf.cast(steps >= boundaries, tf.int32)))


SHAPES: dict[str, Callable[[ScheduleHparams, int], Shape]] = {
    "constant": _constant,
    "cosine": _cosine,
    "exponential": _exponential,
    "polynomial": _polynomial,
    "piecewise": _piecewise,
}
