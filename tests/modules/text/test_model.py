"""Text models: probabilities, padding that changes nothing, places, pairs, chunks, and a falling loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules import input_pipeline
from modules.errors import TrainingError
from modules.hparams.text import ChunkHparams
from modules.text import batching, layers
from modules.text import model as text_model
from modules.text.trainer import document_frequencies, inverse_frequencies
from modules.training import loop
from modules.training.session import prepare
from tests.modules.text.small import CLASSES, VOCABULARY, dataset, hparams

IDS = np.array([[2, 7, 8, 9, 3], [2, 10, 3, 0, 0]], np.float32)

VARIANTS: dict[str, dict[str, Any]] = {
    "ngrams": {"name": "ngrams", "width": 0},
    "hidden ngrams": {"name": "ngrams", "width": 8},
    "cnn": {"name": "cnn"},
    "learned": {},
    "rotary": {"positions": "rotary", "pooling": "max"},
    "first": {"pooling": "first"},
    "own": {"name": "tests.modules.text.small.own_network"},
    "own, chunks": {"name": "tests.modules.text.small.own_network", "chunk": ChunkHparams(4, 1, "mean")},
    "chunks": {"chunk": ChunkHparams(4, 1, "mean")},
    "chunks, cnn": {"name": "cnn", "chunk": ChunkHparams(4, 1, "max")},
}


def build(**changes: Any) -> keras.Model:
    keras.utils.set_random_seed(5)
    model = text_model.build(hparams(**changes), VOCABULARY, class_count=CLASSES)
    if changes.get("name") == "ngrams":  # they begin at zero
        bag = model.get_layer("bag")
        bag.embeddings.assign(np.random.default_rng(0).normal(size=bag.embeddings.shape))
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_probabilities_do_not_depend_on_padding_or_neighbours(variant: str) -> None:
    model = build(**VARIANTS[variant])
    scores = np.asarray(model(IDS))
    assert scores.shape == (2, CLASSES)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, atol=1e-6)
    wide = np.pad(IDS, [(0, 0), (0, 7)])
    np.testing.assert_allclose(np.asarray(model(wide)), scores, atol=1e-5)
    np.testing.assert_allclose(np.asarray(model(IDS[1:, :3])), scores[1:], atol=1e-5)
    assert not np.allclose(scores[0], scores[1], atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_text_of_nothing_but_padding_has_finite_scores(variant: str) -> None:
    assert np.isfinite(np.asarray(build(**VARIANTS[variant])(np.zeros((1, 1), np.float32)))).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_keras_file_loads_and_answers_the_same(variant: str, tmp_path) -> None:
    model = build(**VARIANTS[variant])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(np.asarray(loaded(IDS)), np.asarray(model(IDS)), atol=1e-6)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_places_count(positions: str) -> None:
    model = build(positions=positions)
    swapped = IDS[:1, [0, 2, 1, 3, 4]]
    assert not np.allclose(np.asarray(model(IDS[:1])), np.asarray(model(swapped)), atol=1e-5)


def test_rotary_attention_sees_distances_alone() -> None:
    """The product of a turned query and a turned key is the same wherever the two stand."""
    random = np.random.default_rng(0)
    query, key = random.normal(size=(2, 1, 1, 1, 8)).astype(np.float32)

    def product(at: int, other: int) -> float:
        places = np.zeros((1, 12, 1, 8), np.float32)
        turned_query = layers.rotated(tf.constant(places + query))[0, at, 0]
        turned_key = layers.rotated(tf.constant(places + key))[0, other, 0]
        return float(tf.tensordot(turned_query, turned_key, 1))

    assert product(2, 5) == pytest.approx(product(7, 10), abs=1e-4)
    assert product(2, 5) != pytest.approx(product(2, 9), abs=1e-3)


def test_the_second_text_of_a_pair_has_another_type() -> None:
    embedding = layers.TokenEmbedding(25, 4, types=2)
    ids = tf.constant([[2.0, 7.0, 3.0, 7.0, 3.0, 0.0]])
    embedding(ids)
    assert embedding._types(tf.cast(ids, tf.int32)).numpy().tolist() == [[0, 0, 0, 1, 1, 1]]


def test_chunks_overlap_and_begin_with_the_start() -> None:
    chunks = layers.Chunks(4, 1)
    long = tf.constant([[2.0, 11, 12, 13, 14, 15, 3], [2.0, 16, 3, 0, 0, 0, 0]])
    assert chunks(long).numpy().tolist() == [
        [2, 11, 12, 13], [2, 13, 14, 15], [2, 15, 3, 0],
        [2, 16, 3, 0], [2, 0, 0, 0], [2, 0, 0, 0],
    ]  # fmt: skip
    assert chunks(long[1:, :3]).numpy().tolist() == [[2, 16, 3]]


@pytest.mark.parametrize(
    ("mode", "expected"), [("mean", [[2.0, 3.0], [5.0, 6.0]]), ("max", [[3.0, 4.0], [5.0, 6.0]])]
)
def test_logits_are_pooled_over_chunks_that_hold_something(mode: str, expected: list[list[float]]) -> None:
    logits = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [9.0, 9.0]])
    chunks = tf.constant([[2.0, 7.0], [2.0, 8.0], [2.0, 7.0], [2.0, 0.0]])
    ids = tf.zeros((2, 3))
    assert layers.PoolChunks(mode)([logits, chunks, ids]).numpy().tolist() == expected


def test_a_bag_is_the_weighted_sum_with_weights_of_norm_one() -> None:
    bag = layers.NgramBag(3, 2)
    bag.build((None, None))
    bag.embeddings.assign([[9, 9], [1, 0], [0, 1], [5, 5]])
    bag.weights_of_ngrams.assign([7, 3, 4, 1])
    np.testing.assert_allclose(bag(tf.constant([[1.0, 2.0, 0.0]])).numpy(), [[0.6, 0.8]], atol=1e-6)


def test_rare_ngrams_weigh_more() -> None:
    examples = tf.data.Dataset.from_generator(
        lambda: iter([([1.0, 1.0, 2.0], [1.0]), ([1.0], [1.0])]),
        output_signature=(tf.TensorSpec((None,), tf.float32), tf.TensorSpec((1,), tf.float32)),
    )
    counts = document_frequencies(examples, 4)
    assert counts.tolist() == [0, 2, 1, 0]
    np.testing.assert_allclose(
        inverse_frequencies(counts, 2), [np.log(3) + 1, 1, np.log(1.5) + 1, np.log(3) + 1], atol=1e-6
    )


@pytest.mark.parametrize("variant", ["ngrams", "cnn", "own", "learned", "rotary", "chunks"])
def test_the_loss_falls(variant: str) -> None:
    settings = hparams(
        {"epochs": 5, "optimizer": "adam", "learning_rate": 0.03}, **{"layers": 1, **VARIANTS[variant]}
    )
    session = prepare(settings.train)
    model = text_model.build(settings, VOCABULARY, class_count=CLASSES)
    by_length = batching.by_length(0)
    report = loop.fit(
        model,
        input_pipeline.TrainingStream(dataset(), 48, 16, 0, batching=by_length),
        input_pipeline.evaluation_batches(dataset(16, seed=1), batch_size=16, batching=by_length),
        session,
        echo=lambda _: None,
    )
    assert report.history["loss"][-1] < 0.8 * report.history["loss"][0]


def test_ids_are_exact_in_16_bits() -> None:
    """Keras would cast ids with the policy, and those over 256 would be others."""
    settings = replace(hparams(name="cnn"))
    try:
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
        model = text_model.build(settings, text_model.Vocabulary(4000), class_count=CLASSES)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    embedding = model.get_layer(text_model.EMBEDDING)
    ids = np.array([[3001.0, 3002.0]], np.float32)
    expected = embedding.tokens.embeddings.numpy()[[3001, 3002]]
    np.testing.assert_allclose(
        tf.cast(embedding(ids), tf.float32).numpy()[0], expected, atol=0.01 * np.abs(expected).max()
    )


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(TrainingError, match="no text model 'lstm'"):
        build(name="lstm")


@pytest.mark.parametrize("name", ["cnn", "transformer", "tests.modules.text.small.own_network"])
def test_words_have_their_weights_where_a_warm_start_looks_for_them(name: str) -> None:
    model = text_model.build(hparams(name=name), VOCABULARY, class_count=CLASSES)
    layer = f"{text_model.EMBEDDING}/tokens"
    (table,) = [variable for variable in model.variables if variable.path.startswith(f"{layer}/")]
    assert table.shape[0] == VOCABULARY.size
