"""Which devices train: tf.distribute strategies by name.

placement = build(hparams, os.environ)
placement.strategy, placement.is_chief, placement.workers
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.train import TrainHparams
from modules.training import cluster, devices

Builder = Callable[[TrainHparams, "cluster.Cluster | None"], tf.distribute.Strategy]


@dataclass(frozen=True)
class Placement:
    """Where training runs.

    Attributes:
        strategy: TensorFlow's default one on one device.
        name: as in `train.strategy`.
        reason: why this one.
        worker: index of this process among the workers.
        workers: number of processes.
        distributed: whether the strategy is more than TensorFlow's default.
    """

    strategy: tf.distribute.Strategy
    name: str
    reason: str
    worker: int
    workers: int
    distributed: bool

    @property
    def is_chief(self) -> bool:
        return self.worker == 0

    @property
    def replicas(self) -> int:
        return int(self.strategy.num_replicas_in_sync)


def build(hparams: TrainHparams, environment: Mapping[str, str]) -> Placement:
    """Makes the strategy that `hparams.strategy` names.

    Raises:
        TrainingError: an unknown strategy, one without its devices, a bad
            TF_CONFIG, a worker that does not come, or a batch that is smaller
            than the replicas.
    """
    members = cluster.read(environment)
    name, reason = _resolve(hparams.strategy, members)
    strategy = BUILDERS[name](hparams, members) if name in BUILDERS else _own(name)
    several = members if name == "multi_worker" else None
    placement = Placement(
        strategy=strategy,
        name=name,
        reason=reason,
        worker=several.index if several else 0,
        workers=len(several.workers) if several else 1,
        distributed=name != "one_device",
    )
    _check_batch(hparams, placement.replicas)
    return placement


def _resolve(wanted: str, members: cluster.Cluster | None) -> tuple[str, str]:
    if wanted != "auto":
        return wanted, "set by train.strategy"
    if members is not None and len(members.workers) > 1:
        return "multi_worker", f"TF_CONFIG names {len(members.workers)} workers"
    gpus = len(tf.config.list_physical_devices("GPU"))
    if gpus > 1:
        return "mirrored", f"{gpus} GPUs"
    return "one_device", "one GPU" if gpus else "no GPU"


def _check_batch(hparams: TrainHparams, replicas: int) -> None:
    if hparams.batch_size < replicas * hparams.accumulate_steps:
        raise TrainingError(
            f"A batch of {hparams.batch_size} is smaller than {replicas} replicas "
            f"times {hparams.accumulate_steps} micro-batches",
            place="train.batch_size",
            remedy="Raise train.batch_size, or lower train.accumulate_steps or the number of devices.",
        )


def _one_device(hparams: TrainHparams, members: cluster.Cluster | None) -> tf.distribute.Strategy:
    return tf.distribute.get_strategy()


def _mirrored(hparams: TrainHparams, members: cluster.Cluster | None) -> tf.distribute.Strategy:
    """All GPUs of this process; without any, all logical CPU devices."""
    found = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(found) < 2:
        raise TrainingError(
            f"The strategy mirrored needs two devices or more; there is {len(found)} "
            f"({', '.join(device.name for device in found)})",
            place="train.strategy",
            remedy="Use train.strategy: auto, or several processes with train.local_workers.",
        )
    return tf.distribute.MirroredStrategy([device.name for device in found])


def _multi_worker(hparams: TrainHparams, members: cluster.Cluster | None) -> tf.distribute.Strategy:
    if members is None:
        raise TrainingError(
            "The strategy multi_worker needs TF_CONFIG, which is not set",
            place="train.strategy",
            remedy="Set it in every worker, or let the Trainer start workers with train.local_workers.",
        )
    missing = cluster.wait_for_all(members, hparams.worker_timeout_s)
    if missing:
        raise TrainingError(
            f"Workers did not come within {hparams.worker_timeout_s:g} s: {', '.join(missing)}",
            place="environment, TF_CONFIG",
            remedy="Check that they run and that their addresses can be reached from here; "
            "train.worker_timeout_s sets how long to wait.",
        )
    return tf.distribute.MultiWorkerMirroredStrategy()


def _tpu(hparams: TrainHparams, members: cluster.Cluster | None) -> tf.distribute.Strategy:
    """All cores of the TPU that the environment names. Written for TPUs, verified on none."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    except (tf.errors.OpError, RuntimeError, ValueError, KeyError) as error:
        raise TrainingError(
            "The strategy tpu finds no TPU",
            place="train.strategy",
            remedy="Use train.strategy: auto on machines without one.",
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def _own(path: str) -> tf.distribute.Strategy:
    """Calls a user's function of no arguments, by dotted path."""
    module_name, _, function = path.rpartition(".")
    if not module_name:
        raise TrainingError(
            f"There is no strategy {path!r}",
            place="train.strategy",
            remedy=f"Known: auto, {', '.join(BUILDERS)}; one of your own is named by its dotted path.",
        )
    try:
        strategy = getattr(importlib.import_module(module_name), function)()
    except (ImportError, AttributeError) as error:
        raise TrainingError(
            f"The strategy {path!r} cannot be loaded: {error}", place="train.strategy"
        ) from error
    if not isinstance(strategy, tf.distribute.Strategy):
        raise TrainingError(
            f"{path!r} should return a tf.distribute.Strategy. Received: {type(strategy).__name__}",
            place="train.strategy",
        )
    return strategy


BUILDERS: dict[str, Builder] = {
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}


def describe(placement: Placement) -> dict[str, object]:
    """Facts for the record."""
    return {
        "strategy": placement.name,
        "strategy_reason": placement.reason,
        "replicas": placement.replicas,
        "workers": placement.workers,
        "tpu": devices.has_tpu(),
    }
