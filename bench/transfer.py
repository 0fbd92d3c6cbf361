"""Fine-tuning beside what a user would try first: a logistic regression on the pretrained network's features.

    python -m bench.transfer --workspace workspace --run latest

The run is one of an image experiment with `model.weights`. The regression sees
the same training photos, unchanged; its strength is chosen on the validation
split, and both are asked for the test split.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from bench.common import Figure, report
from components.serving import examples
from modules.hparams.image import ImageHparams
from modules.image import model as image_model
from modules.image.decode import decode_images
from modules.training import freezing
from pipelines.lineage.store import Store
from pipelines.workspace import Workspace

_BATCH = 32
_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Run:
    """What is taken from a run.

    Attributes:
        hparams: as its Trainer was told.
        examples_uri: of its ExampleGen.
        accuracy: of its model on the test split.
    """

    hparams: ImageHparams
    examples_uri: str
    accuracy: float


def of_run(workspace: Path, run: str) -> Run:
    """Reads a run's record."""
    with Store(Workspace.open(str(workspace)).database) as store:
        nodes = {node.node: node for node in store.nodes(store.find_run(run).run_id)}
    told: dict[str, Any] = json.loads(str(nodes["Trainer"].properties["custom_config"]))
    return Run(
        ImageHparams.from_config(told),
        nodes["ExampleGen"].outputs["examples"][0].uri,
        float(nodes["Evaluator"].properties["accuracy"]),
    )


def features_of(run: Run, splits: Sequence[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Each split's pooled features (N, D) by the pretrained network, and labels (N,)."""
    shape = replace(run.hparams.model, dropout=0.0)
    size = {"height": shape.height, "width": shape.width, "channels": shape.channels}
    # Moments of the data count for networks without a normalisation of their own.
    model = image_model.build(shape, class_count=2, mean=[127.5] * 3, variance=[4096.0] * 3)
    backbone, _ = freezing.cut(model)
    found = {}
    for split in splits:
        records = examples.read_split(run.examples_uri, split)
        encoded = examples.values_of(records, run.hparams.image_feature)
        parts = [
            np.asarray(
                backbone(decode_images(tf.constant(encoded[at : at + _BATCH]), **size), training=False)
            )
            for at in range(0, len(encoded), _BATCH)
        ]
        labels = examples.labels_of(records, run.hparams.label_feature)
        found[split] = np.concatenate(parts), np.array(labels)
    return found


def regression(splits: dict[str, tuple[np.ndarray, np.ndarray]]) -> float:
    """Its accuracy on the test split."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    made = [
        make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=2000)).fit(*splits["train"])
        for strength in _STRENGTHS
    ]
    best = max(made, key=lambda model: float(model.score(*splits["validation"])))
    return float(best.score(*splits["test"]))


def main() -> None:
    """Prints and writes both accuracies."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workspace", type=Path, default=Path("workspace"))
    parser.add_argument("--run", default="latest", help="an id, a unique prefix, or latest")
    asked = parser.parse_args()
    run = of_run(asked.workspace, asked.run)
    began = time.perf_counter()
    accuracy = regression(features_of(run, ("train", "validation", "test")))
    seconds = round(time.perf_counter() - began, 1)
    figure = Figure.of("fine_tuned_vs_regression", [run.accuracy], [accuracy], "accuracy", ">= 1")
    report("transfer", [figure], {"regression_s": seconds})


if __name__ == "__main__":
    main()
