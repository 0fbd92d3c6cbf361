"""Masked language modelling: what is hidden, what is to be predicted, and a falling loss."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from modules.hparams.text import PretrainHparams
from modules.text import model as text_model
from modules.text import pretraining
from modules.text.masking import NOT_CHOSEN, Masking
from modules.training.classifier import Start
from modules.training.session import prepare
from tests.modules.text.small import VOCABULARY, dataset, hparams

SEED = tf.constant([4, 2], tf.int64)


def many() -> np.ndarray:
    """400 texts of 30 ordinary tokens, with start, separator and padding."""
    random = np.random.default_rng(0)
    body = random.integers(5, 25, (400, 30))
    edge = np.ones((400, 1), np.int64)
    return np.concatenate([2 * edge, body, 3 * edge, 0 * edge], axis=1).astype(np.float32)


def test_so_many_are_chosen_and_become_the_mask_another_or_stay() -> None:
    given = many()
    hidden, target = (value.numpy() for value in Masking(VOCABULARY, 0.15)(tf.constant(given), SEED))
    chosen = target != NOT_CHOSEN
    np.testing.assert_array_equal(target[chosen], given[chosen])
    np.testing.assert_array_equal(hidden[~chosen], given[~chosen])
    assert chosen[:, 1:31].mean() == pytest.approx(0.15, abs=0.015)
    assert not chosen[:, [0, 31, 32]].any()  # special tokens are never chosen
    assert (hidden[chosen] == 4).mean() == pytest.approx(0.8, abs=0.04)
    # Another token is by chance the same one time in twenty.
    assert (hidden[chosen] == given[chosen]).mean() == pytest.approx(0.1 + 0.1 / 20, abs=0.03)
    assert hidden.max() < 25
    assert not ((hidden < 5) & (hidden != 4))[chosen].any()


def test_the_same_seed_hides_the_same_and_another_does_not() -> None:
    masking = Masking(VOCABULARY, 0.15)
    first, again, other = (masking(tf.constant(many()), seed)[0].numpy() for seed in (SEED, SEED, SEED + 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_what_becomes_of_a_token_is_not_what_the_next_epochs_choose_by() -> None:
    """With a share of half, tokens that are replaced must be chosen again by half in later epochs."""
    masking = Masking(VOCABULARY, 0.5)
    given = tf.constant(many())
    hidden, target = (value.numpy() for value in masking(given, SEED))
    kept = (target != NOT_CHOSEN) & (hidden == given.numpy())
    for epochs in (1, 2):
        _, later = masking(given, tf.add(SEED, [epochs, 0]))
        assert (later.numpy() != NOT_CHOSEN)[kept].mean() == pytest.approx(0.5, abs=0.08)


def test_pieces_of_a_word_are_hidden_together() -> None:
    inside = tuple(number >= 15 for number in range(25))  # ids from 15 on continue a word
    given = np.tile([2, 5, 15, 16, 6, 7, 17, 3], (200, 1)).astype(np.float32)
    _, target = Masking(VOCABULARY, 0.3, inside)(tf.constant(given), SEED)
    chosen = target.numpy() != NOT_CHOSEN
    np.testing.assert_array_equal(chosen[:, 1], chosen[:, 2])
    np.testing.assert_array_equal(chosen[:, 1], chosen[:, 3])
    np.testing.assert_array_equal(chosen[:, 5], chosen[:, 6])
    assert (chosen[:, 4] != chosen[:, 5]).any()
    assert chosen[:, 1:7].mean() == pytest.approx(0.3, abs=0.06)


def test_places_of_chosen_tokens_come_first() -> None:
    target = tf.constant([[-1, 7, -1, 9, -1, -1, -1, -1.0], [-1] * 8])
    places, wanted = pretraining._gathered(target, 0.15)
    assert places.numpy()[0, :2].tolist() == [1, 3]
    assert wanted.numpy().tolist() == [[7, 9, -1], [-1, -1, -1]]


def test_loss_and_accuracy_are_means_over_the_chosen() -> None:
    labels = tf.constant([[1.0, 0.0, -1.0], [-1.0, -1.0, -1.0]])
    predictions = tf.constant([[[0.5, 0.5], [0.25, 0.75], [0.9, 0.1]]] * 2)
    expected = -(np.log(0.5) + np.log(0.25)) / 2
    np.testing.assert_allclose(pretraining.loss(labels, predictions).numpy(), [expected, 0.0], atol=1e-6)
    assert pretraining.accuracy(labels, predictions).numpy().tolist() == [0.0, 0.0]


def test_the_loss_falls_and_the_encoder_is_what_learned() -> None:
    settings = hparams({"optimizer": "adam"}, layers=1)
    session = prepare(settings.train)
    model = text_model.build(settings, VOCABULARY, class_count=3)
    encoder = text_model.encoder_of(model)
    before = model.get_weights()
    start = Start(dataset(), dataset(16, seed=1), 48, session, None)
    report = pretraining.pretrain(
        PretrainHparams(epochs=6, learning_rate=0.03, batch_size=16),
        settings.train,
        start,
        encoder,
        Masking(VOCABULARY, 0.15),
    )
    assert report.history["loss"][-1] < report.history["loss"][0]
    moved = {
        variable.path
        for variable, old in zip(model.variables, before, strict=True)
        if not np.array_equal(variable.numpy(), old)
    }
    trained = {variable.path for layer in encoder for variable in layer.trainable_variables}
    assert moved == trained


def test_of_long_texts_a_stretch_is_seen_another_in_each_epoch() -> None:
    """As wide as a chunk, whose places alone have embeddings; shorter texts stay as they are."""
    given = many()
    given[0, 6:] = 0
    made = [
        pretraining.windows(tf.constant(given), 10, 0, tf.constant([4, epoch], tf.int64)).numpy()
        for epoch in range(2)
    ]
    assert not np.array_equal(*made)
    for seen in made:
        assert seen.shape == (400, 10)
        np.testing.assert_array_equal(seen[0], given[0, :10])
        np.testing.assert_array_equal(seen[:, 0], given[:, 0])
        stretches = np.lib.stride_tricks.sliding_window_view(given[:, 1:32], 9, axis=1)
        assert (stretches[1:] == seen[1:, None, 1:]).all(axis=2).any(axis=1).all()
        # The beginning and the end are drawn, too.
        assert (seen[1:, 1:] == given[1:, 1:10]).all(axis=1).any()
        assert (seen[1:, -1] == 3).any()
    np.testing.assert_array_equal(pretraining.windows(tf.constant(given), 64, 0, SEED), given)
