"""Adapters and frozen layers: one step changes only what should change, and merging changes no answer."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules import contract, export, input_pipeline
from modules.errors import TrainingError
from modules.hparams.text import LoraHparams
from modules.text import batching, lora
from modules.text import model as text_model
from modules.training import loop, warm
from modules.training.session import prepare
from tests.modules.text.small import CLASSES, VOCABULARY, dataset, hparams

IDS = np.array([[2, 7, 8, 9, 3], [2, 10, 3, 0, 0]], np.float32)
SETTINGS = hparams({"epochs": 1, "batch_size": 48, "optimizer": "adam"})


def build() -> keras.Model:
    keras.utils.set_random_seed(2)
    return text_model.build(SETTINGS, VOCABULARY, class_count=CLASSES)


def moved_by_one_step(model: keras.Model) -> set[str]:
    """Paths of what one optimizer step changes."""
    before = [variable.numpy() for variable in model.variables]
    by_length = batching.by_length(0)
    loop.fit(
        model,
        input_pipeline.TrainingStream(dataset(), 48, 48, 0, batching=by_length),
        input_pipeline.evaluation_batches(dataset(8, seed=1), batch_size=8, batching=by_length),
        prepare(SETTINGS.train),
        echo=lambda _: None,
    )
    return {
        variable.path
        for variable, old in zip(model.variables, before, strict=True)
        if not np.array_equal(variable.numpy(), old)
    }


def test_a_step_moves_adapters_and_the_last_layer_alone() -> None:
    model = build()
    lora.adapt(model, LoraHparams(2, 4.0, ("query", "outer")))
    moved = moved_by_one_step(model)
    assert {path for path in moved if "block" not in path} == {"logits/kernel", "logits/bias"}
    # A is multiplied by B, which begins at zero, so in the first step B alone moves.
    assert {path for path in moved if "block" in path} == {
        f"block{block}/{part}/lora_kernel_b" for block in (0, 1) for part in ("query", "outer")
    }
    assert moved_by_one_step(model) >= {f"block{block}/query/lora_kernel_a" for block in (0, 1)}


@pytest.mark.parametrize(
    ("what", "resting"),
    [
        ("1", ("embedding", "block0")),
        ("encoder", ("embedding", "block0", "block1", "final_norm")),
    ],
)
def test_a_step_moves_what_is_not_frozen(what: str, resting: tuple[str, ...]) -> None:
    model = build()
    every = {variable.path for variable in model.trainable_variables}
    lora.freeze(model, what)
    moved = moved_by_one_step(model)
    # The bias of keys shifts all logits of a softmax alike, so that its gradient is nought but for rounding.
    uncertain = {path for path in every if path.endswith("key/bias")}
    assert moved - uncertain == {path for path in every if path.split("/")[0] not in resting} - uncertain
    assert not any(path.split("/")[0] in resting for path in moved)


def test_more_blocks_than_there_are_cannot_rest() -> None:
    with pytest.raises(TrainingError, match="3 blocks cannot rest: the encoder has 2"):
        lora.freeze(build(), "3")


def adapted(**changes: Any) -> keras.Model:
    model = build()
    lora.adapt(model, LoraHparams(2, 4.0, lora.TARGETS))
    random = np.random.default_rng(1)
    for layer in lora.adapted(model):
        layer.lora_kernel_b.assign(random.normal(scale=0.3, size=layer.lora_kernel_b.shape))
    return model


def test_merging_changes_no_answer() -> None:
    model = adapted()
    before = np.asarray(model(IDS))
    assert np.abs(before - np.asarray(build()(IDS))).max() > 1e-3  # the adapters say something
    plain = lora.merge(model, build())
    assert not lora.adapted(plain)
    np.testing.assert_allclose(np.asarray(plain(IDS)), before, atol=1e-5)
    query = model.get_layer("block0").query
    expected = query._kernel.numpy() + 4.0 / 2 * query.lora_kernel_a.numpy() @ query.lora_kernel_b.numpy()
    np.testing.assert_allclose(plain.get_layer("block0").query.kernel.numpy(), expected, atol=1e-6)


def test_adapters_are_written_alone(tmp_path) -> None:
    from safetensors import safe_open

    model = adapted()
    lora.save(model, tmp_path / "adapters.safetensors")
    with safe_open(str(tmp_path / "adapters.safetensors"), "np") as file:
        assert len(list(file.keys())) == 2 * len(lora.TARGETS) * 2
        assert file.metadata() == {"rank": "2", "alpha": "4.0"}
        kernel = file.get_tensor("block1/inner/lora_kernel_b")
    np.testing.assert_array_equal(kernel, model.get_layer("block1").inner.lora_kernel_b.numpy())


def test_a_target_that_is_not_there_is_named() -> None:
    with pytest.raises(TrainingError, match="no layer 'attention' to adapt"):
        lora.adapt(build(), LoraHparams(2, 4.0, ("attention",)))


def test_a_warm_start_takes_the_merged_kernels_and_begins_adapters_anew(tmp_path) -> None:
    earlier = lora.merge(adapted(), build())
    path = tmp_path / contract.KERAS_MODEL
    path.parent.mkdir()
    earlier.save(path)
    names = [str(index) for index in range(CLASSES)]
    nothing = {contract.SIGNATURE_EXAMPLES: lambda raw: tf.zeros((tf.shape(raw)[0], 1))}
    export.save(str(tmp_path / "Format-Serving"), earlier, names, nothing)
    model = build()
    lora.adapt(model, LoraHparams(2, 4.0, lora.TARGETS))
    assert (
        warm.load(model, str(tmp_path / "Format-Serving"), warm.Meaning(names, [], lambda count: model)) == {}
    )
    np.testing.assert_allclose(model(IDS), earlier(IDS), atol=1e-6)
