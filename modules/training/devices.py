"""What the machine has: devices, 16-bit units, threads; and facts for the record.

facts = describe()     # {"device": "CPU", "cpu_bfloat16": ["avx512_bf16"], ...}
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from modules.errors import TrainingError

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
    gpus = tf.config.list_physical_devices("GPU")
    found = [tf.config.experimental.get_device_details(gpu).get("compute_capability") for gpu in gpus]
    known = [capability for capability in found if capability]
    return min(known) if known else None


def has_tpu() -> bool:
    """Whether TensorFlow sees a TPU on this machine."""
    return bool(tf.config.list_physical_devices("TPU"))


def configure(*, intra_op_threads: int, inter_op_threads: int) -> None:
    """Lets GPU memory grow as needed, and sets thread counts where they are not 0.

    Raises:
        TrainingError: TensorFlow is already running with other thread counts.
    """
    for gpu in tf.config.list_physical_devices("GPU"):
        if not tf.config.list_logical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
    threading = tf.config.threading
    wanted = (
        (
            intra_op_threads,
            threading.get_intra_op_parallelism_threads,
            threading.set_intra_op_parallelism_threads,
        ),
        (
            inter_op_threads,
            threading.get_inter_op_parallelism_threads,
            threading.set_inter_op_parallelism_threads,
        ),
    )
    for count, read, write in wanted:
        if not count or read() == count:
            continue
        try:
            write(count)
        except RuntimeError as error:
            raise TrainingError(
                f"TensorFlow already runs with {read() or 'its own choice of'} threads, not {count}",
                place="train.intra_op_threads, train.inter_op_threads",
                remedy="Set both to 0, or train in a process of its own (train.local_workers: 2 or more).",
            ) from error


def describe() -> dict[str, Any]:
    """Facts about devices, threads and versions, for the record."""
    gpus = tf.config.list_physical_devices("GPU")
    return {
        "device": "TPU" if has_tpu() else "GPU" if gpus else "CPU",
        "gpus": [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus],
        "cpu_cores": os.cpu_count(),
        "cpu_bfloat16": cpu_bfloat16_units(),
        "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }


def peak_memory_mb() -> float:
    """The most memory this process has held, in MiB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
