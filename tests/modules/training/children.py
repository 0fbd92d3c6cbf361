"""What tests run in processes of their own: devices and clusters are set once a process."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import Any


def mirrored(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Trains each case on one device and on two logical CPU devices; returns the differences."""
    import tensorflow as tf

    from modules.training.session import prepare
    from tests.modules.training import small

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    # One strategy for all: two of them in one process mix up their collectives.
    one, two = prepare(small.hparams()), prepare(small.hparams(strategy="mirrored"))
    return [_compare(one, two, case) for case in cases]


SETTINGS = {
    "optimizer_options": {"momentum": 0.9},
    "clip": "global_norm",
    "early_stopping_patience": 100,
}


def _compare(one: Any, two: Any, case: dict[str, Any]) -> dict[str, Any]:
    from tests.modules.training import small

    made, reports = [], []
    for session, changes in ((one, case["one"]), (two, case["two"])):
        chosen = small.hparams(epochs=case["epochs"], **SETTINGS, **changes)
        model, report = small.fit(
            chosen, norm=case["norm"], examples=case["examples"], session=replace(session, hparams=chosen)
        )
        made.append(model)
        reports.append(report)
    moving = [
        [variable.numpy() for variable in model.non_trainable_variables if "moving" in variable.path]
        for model in made
    ]
    history = [report.history for report in reports]
    return {
        "replicas": reports[1].system["replicas"],
        "steps": reports[1].steps,
        "weights": small.difference(*map(small.weights, made)),
        "moving": small.difference(*moving) if case["norm"] else 0.0,
        "loss": abs(history[0]["loss"][-1] - history[1]["loss"][-1]),
        "val_loss": abs(history[0]["val_loss"][-1] - history[1]["val_loss"][-1]),
    }


def train(folder: str, settings: dict[str, Any], checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Trains with checkpoints in `folder`; returns a digest of the final weights, and the report."""
    import hashlib

    from modules.hparams.train import CheckpointHparams
    from modules.training.checkpoints import CheckpointStore
    from tests.modules.training import small

    chosen = small.hparams(**settings, checkpoint=CheckpointHparams(**checkpoint))
    store = CheckpointStore(folder, identity={"model": "small"}, keep=chosen.checkpoint.keep)
    model, report = small.fit(
        chosen,
        norm=True,
        dropout=0.2,
        examples=72,
        store=store,
        echo=lambda line: print(line, flush=True),
    )
    total = hashlib.sha256()
    for variable in model.variables:
        total.update(variable.numpy().tobytes())
    return {"digest": total.hexdigest(), "report": report.to_json()}


def worker_fn(fn_args: Any) -> None:
    """What each worker of `workers.run` calls: trains, and the chief writes what came of it."""
    import numpy as np

    from modules.hparams.train import CheckpointHparams, TrainHparams
    from modules.training.checkpoints import CheckpointStore
    from modules.training.session import prepare
    from tests.modules.training import small

    config = dict(fn_args.custom_config)
    norm = config.pop("norm")
    chosen: TrainHparams = small.hparams(**config)
    if isinstance(chosen.checkpoint, dict):
        chosen = replace(chosen, checkpoint=CheckpointHparams(**chosen.checkpoint))
    session = prepare(chosen)
    store = CheckpointStore(f"{fn_args.model_run_dir}/state", identity={"model": "small"})
    model, report = small.fit(
        chosen,
        norm=norm,
        examples=72,
        session=session,
        store=store,
        echo=lambda line: print(line, flush=True),
    )
    if session.is_chief:
        np.savez(f"{fn_args.model_run_dir}/weights.npz", *small.weights(model))
        with open(f"{fn_args.model_run_dir}/report.json", "w") as file:
            json.dump(report.to_json(), file)


def recompute_peaks() -> list[float]:
    """Peak memory in MiB of training a deep network on a large batch: recomputed, then as it is."""
    import keras
    import numpy as np
    import tensorflow as tf

    from modules.input_pipeline import TrainingStream
    from modules.training import devices, loop
    from modules.training.session import prepare
    from tests.modules.training import small

    rows, width = 4096, 256
    pairs = (np.zeros((rows, width), np.float32), np.zeros(rows, np.int32))
    dataset = tf.data.Dataset.from_tensor_slices(pairs)
    peaks = []
    for recompute in (True, False):
        session = prepare(small.hparams(epochs=1, batch_size=rows, recompute=recompute))
        x = inputs = keras.Input((width,))
        for _ in range(36):
            x = keras.layers.Dense(width, activation="gelu")(x)
        model = keras.Model(inputs, keras.layers.Dense(small.CLASSES, "softmax")(x))
        stream = TrainingStream(dataset, rows, rows, seed=0)
        loop.fit(model, stream, dataset.take(8).batch(8), session, echo=lambda line: None)
        peaks.append(devices.peak_memory_mb())
    return peaks


def join(timeout_s: float) -> str:
    """Joins the cluster of TF_CONFIG; returns the error's headline where that fails."""
    from modules.errors import TrainingError
    from modules.training.session import prepare
    from tests.modules.training import small

    try:
        prepare(small.hparams(strategy="multi_worker", worker_timeout_s=timeout_s))
    except TrainingError as error:
        return error.headline
    return "joined"


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*json.loads(sys.argv[2]))))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
