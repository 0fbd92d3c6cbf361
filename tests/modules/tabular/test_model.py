"""Tabular models: probabilities, and what each part sees."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.tabular import TabularHparams, TabularInputHparams, TabularModelHparams
from modules.hparams.train import TrainHparams
from modules.tabular import model as tabular_model
from modules.tabular.columns import Layout

LAYOUT = Layout(numeric=("size",), categorical=("kind",), crosses=(("size", "kind"),))
ROWS = np.array([[0.5, 1, 2, 30], [-1.0, 0, 0, 4]], np.float32)


def hparams(name: str) -> TabularHparams:
    inputs = TabularInputHparams("label", (), (), (("size", "kind"),), 2, 10, 50)
    train = TrainHparams(
        epochs=1,
        batch_size=2,
        learning_rate=0.1,
        weight_decay=0.0,
        warmup_fraction=0.0,
        label_smoothing=0.0,
        early_stopping_patience=1,
        seed=0,
    )
    return TabularHparams(inputs, TabularModelHparams(name, 4, (8,), 0.0), train)


@pytest.mark.parametrize("name", sorted(tabular_model.MODELS))
@pytest.mark.parametrize("layout", [LAYOUT, Layout(("size",), (), ()), Layout((), ("kind",), ())])
def test_every_model_gives_probabilities(name: str, layout: Layout) -> None:
    sizes = [3] * len(layout.categorical)
    model = tabular_model.build(hparams(name), layout, category_sizes=sizes, class_count=2)
    scores = np.asarray(model(np.zeros((2, layout.width), np.float32)))
    assert scores.shape == (2, 2)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("number", "text"), [("km/h", "kind/of"), ("fixed acidity", "price (EUR)"), ("größe", "类 %>")]
)
def test_columns_may_have_any_names(number: str, text: str) -> None:
    """Layers have theirs, which TensorFlow's graphs take from few letters."""
    layout = Layout((number,), (text,), ((number, text),))
    model = tabular_model.build(hparams("wide_and_deep"), layout, category_sizes=[3], class_count=2)
    np.testing.assert_allclose(tf.function(model)(tf.constant(ROWS)), model(ROWS), atol=1e-6)


def test_categories_have_their_weights_where_a_warm_start_looks_for_them() -> None:
    layout = Layout(("size",), ("kind/of",), (("size", "kind/of"),))
    model = tabular_model.build(hparams("wide_and_deep"), layout, category_sizes=[3], class_count=2)
    for purpose in ("deep", "wide"):
        layer = model.get_layer(tabular_model.table_name(purpose, "kind/of"))
        assert [variable.path for variable in layer.variables] == [f"{layer.name}/embeddings"]
        assert layer.input_dim == 3


def test_the_wide_part_sees_crosses_and_the_mlp_does_not() -> None:
    moved = ROWS.copy()
    moved[:, 3] = 7
    for name, differs in (("wide_and_deep", True), ("mlp", False)):
        model = tabular_model.build(hparams(name), LAYOUT, category_sizes=[3], class_count=2)
        assert np.allclose(np.asarray(model(ROWS)), np.asarray(model(moved))) is not differs


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(TrainingError, match="no tabular model 'forest'"):
        tabular_model.build(hparams("forest"), LAYOUT, category_sizes=[3], class_count=2)
