"""What the machine has: devices, 16-bit units, threads; and facts for the record.

facts = describe()     # {"device": "CPU", "cpu_bfloat16": ["avx512_bf16"], ...}
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.train import TrainHparams

ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
"""TensorFlow's variable, which it reads when it is imported."""

_BFLOAT16_FLAGS = ("amx_bf16", "avx512_bf16")


def cpu_bfloat16_units(cpuinfo: str | None = None) -> list[str]:
    """The bfloat16 instruction sets of the processor, by Linux's names; empty elsewhere.

    Args:
        cpuinfo: text of /proc/cpuinfo; read when not given.
    """
    if cpuinfo is None:
        path = Path("/proc/cpuinfo")
        cpuinfo = path.read_text() if path.exists() else ""
    line = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), "")
    return [flag for flag in _BFLOAT16_FLAGS if flag in line.split()]


def gpu_compute_capability() -> tuple[int, int] | None:
    """Compute capability of the weakest GPU, or None where there is none."""
    gpus = tf.config.get_visible_devices("GPU")
    found = [tf.config.experimental.get_device_details(gpu).get("compute_capability") for gpu in gpus]
    known = [capability for capability in found if capability]
    return min(known) if known else None


def has_tpu() -> bool:
    """Whether TensorFlow sees a TPU on this machine."""
    return bool(tf.config.list_physical_devices("TPU"))


def configure(hparams: TrainHparams, *, small: bool = False) -> None:
    """Chooses devices, lets GPU memory grow as needed, and sets thread counts.

    Args:
        hparams: settings.
        small: whether a step is a matter of milliseconds: each operation then runs on one
            thread, unless settings say otherwise.

    Raises:
        TrainingError: no GPU where one is wanted, or TensorFlow is already
            running with other devices or thread counts.
    """
    _choose_devices(hparams.devices)
    for gpu in tf.config.get_visible_devices("GPU"):
        if not tf.config.list_logical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
    for kind in ("intra", "inter"):
        automatic = 1 if small and kind == "intra" else threads(hparams.local_workers)
        _set_threads(kind, getattr(hparams, f"{kind}_op_threads"), automatic)


def _choose_devices(wanted: str) -> None:
    if wanted == "gpu" and not tf.config.list_physical_devices("GPU"):
        raise TrainingError(
            "train.devices is gpu, and TensorFlow sees no GPU",
            place="train.devices",
            remedy="Set train.devices: auto, or mend the driver (nvidia-smi tells whether it sees one).",
        )
    if wanted == "cpu" and tf.config.get_visible_devices("GPU"):
        try:
            tf.config.set_visible_devices([], "GPU")
        except RuntimeError as error:
            raise TrainingError(
                "TensorFlow already uses a GPU",
                place="train.devices",
                remedy="Set CUDA_VISIBLE_DEVICES to nothing before the run.",
            ) from error


def _set_threads(kind: str, wanted: int, automatic: int) -> None:
    """Sets a thread count; one that nobody asked for stays as it is where TensorFlow already runs."""
    read = getattr(tf.config.threading, f"get_{kind}_op_parallelism_threads")
    count = wanted or automatic
    if not count or read() == count:
        return
    try:
        getattr(tf.config.threading, f"set_{kind}_op_parallelism_threads")(count)
    except RuntimeError as error:
        if wanted:
            raise TrainingError(
                f"TensorFlow already runs with {read() or 'its own choice of'} threads, not {wanted}",
                place=f"train.{kind}_op_threads",
                remedy="Set it to 0, or call the trainer in a process of its own.",
            ) from error


def threads(workers: int = 1) -> int:
    """Threads for each of some workers on this machine: 0 where TensorFlow's own choice is right.

    TensorFlow counts the processor's cores that this process may run on, and
    knows nothing of a container's quota or of its neighbours.
    """
    cores = usable_cores()
    if workers == 1 and cores == len(os.sched_getaffinity(0)):
        return 0
    return max(1, cores // workers)


def usable_cores(cpu_max: str | None = None) -> int:
    """Cores that this process may use, by affinity and by the container's quota.

    Args:
        cpu_max: text of the control group's `cpu.max`; read when not given.
    """
    cores = len(os.sched_getaffinity(0))
    if cpu_max is None:
        path = Path("/sys/fs/cgroup/cpu.max")
        cpu_max = path.read_text() if path.exists() else "max"
    quota, _, period = cpu_max.strip().partition(" ")
    if not quota.isdigit() or not period.isdigit():
        return cores
    return max(1, min(cores, int(quota) // int(period)))


def onednn_setting() -> str:
    """`on`, `off` or `auto`, as this process's TensorFlow was started with."""
    return {"1": "on", "0": "off"}.get(os.environ.get(ONEDNN, ""), "auto")


def needs_own_process(hparams: TrainHparams) -> bool:
    """Whether settings can only be made before TensorFlow begins, and were not."""
    if hparams.onednn not in ("auto", onednn_setting()):
        return True
    threading = tf.config.threading
    now = (threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads())
    wanted = (hparams.intra_op_threads, hparams.inter_op_threads)
    return any(want and want != have for want, have in zip(wanted, now, strict=True))


def describe() -> dict[str, Any]:
    """Facts about devices, threads and versions, for the record."""
    gpus = tf.config.get_visible_devices("GPU")
    return {
        "device": "TPU" if has_tpu() else "GPU" if gpus else "CPU",
        "gpus": [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus],
        "cpu_cores": os.cpu_count(),
        "cpu_bfloat16": cpu_bfloat16_units(),
        "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
        "onednn": onednn_setting(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }


def peak_memory_mb() -> float:
    """The most memory this process has held, in MiB."""
    # Not getrusage: what it says begins with the peak of the process that started this one.
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return round(int(found.group(1)) / 1024, 1) if found else 0.0


def device_peak_memory_mb() -> float | None:
    """The most memory that TensorFlow has held on any GPU, in MiB; None without one."""
    gpus = tf.config.list_logical_devices("GPU")
    peaks = [tf.config.experimental.get_memory_info(gpu.name)["peak"] for gpu in gpus]
    return round(max(peaks) / 2**20, 1) if peaks else None
