"""Beginning with an earlier model's weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from modules import contract
from modules.errors import TrainingError
from modules.training import warm
from tests.modules.training import small

CLASSES = ["a", "b", "c"]
WORDS = [b"one", b"two", b"three"]


def build(classes: int, *, rows: int = 6, norm: bool = False) -> keras.Model:
    """A classifier of ids, with a table that has one id before its entries and two after them."""
    ids = keras.Input((4,))
    x = keras.layers.Embedding(rows, 5, name="words")(ids)
    x = keras.layers.GlobalAveragePooling1D()(x)
    x = keras.layers.Dense(5, name="inner")(x)
    if norm:
        x = keras.layers.BatchNormalization(name="norm")(x)
    return keras.Model(ids, keras.layers.Dense(classes, "softmax", dtype="float32", name="scores")(x))


def meaning(
    classes: Sequence[str] = CLASSES, words: Sequence[bytes] = WORDS, layer: str = "words"
) -> warm.Meaning:
    layers = (layer,) if layer else ()
    rows = len(words) + 3
    return warm.Meaning(
        classes, [warm.Table("tokens", words, layers, first=1)], lambda count: build(count, rows=rows)
    )


def saved(folder: Path, model: keras.Model) -> str:
    """Writes a model as the Trainer does, as far as is read of it; the folder that TFX would name."""
    path = folder / contract.KERAS_MODEL
    path.parent.mkdir(parents=True)
    model.save(path)
    (folder / "tokens").write_bytes(b"".join(word + b"\n" for word in WORDS))
    module = tf.Module()
    module.asset = tf.saved_model.Asset(str(folder / "tokens"))
    names = tf.function(lambda: tf.constant(CLASSES), input_signature=[])
    setattr(module, contract.CLASS_NAMES_FUNCTION, names)
    tf.saved_model.save(module, str(folder / "Format-Serving"))
    return str(folder / "Format-Serving")


def test_all_weights_are_taken_over(tmp_path: Path) -> None:
    earlier, model = build(3, norm=True), build(3, norm=True)
    assert warm.load(model, saved(tmp_path, earlier), meaning()) == {}
    for one, other in zip(model.variables, earlier.variables, strict=True):
        assert (one.numpy() == other.numpy()).all()


def test_weights_follow_their_class_and_their_word(tmp_path: Path) -> None:
    """Both have changed places; one of each is new, and one of each is gone."""
    earlier, model = build(3), build(3)
    first = [variable.numpy() for variable in model.variables]
    folder = saved(tmp_path, earlier)
    record = warm.load(model, folder, meaning(["c", "new", "a"], [b"three", b"new", b"one"]))
    assert record == {name: {"kept": 2, "new": 1, "gone": 1} for name in ("classes", "tokens")}
    table, _, _, kernel, bias = (variable.numpy() for variable in model.variables)
    old_table, _, _, old_kernel, old_bias = (variable.numpy() for variable in earlier.variables)
    assert (table[[0, 1, 3, 4, 5]] == old_table[[0, 3, 1, 4, 5]]).all()
    assert (table[2] == first[0][2]).all()
    assert (kernel[:, [0, 2]] == old_kernel[:, [2, 0]]).all() and (kernel[:, 1] == first[3][:, 1]).all()
    assert (bias[[0, 2]] == old_bias[[2, 0]]).all()
    assert (model.get_layer("inner").kernel.numpy() == earlier.get_layer("inner").kernel.numpy()).all()
    assert "classes: 2 taken over by name, 1 new, 1 gone" in warm.describe(record)


def test_more_classes_and_words_make_no_other_network(tmp_path: Path) -> None:
    words = [b"two", b"more", b"three", b"one", b"most"]
    earlier, model = build(3), build(4, rows=8)
    warm.load(model, saved(tmp_path, earlier), meaning(["d", *CLASSES], words))
    old, new = (item.get_layer("words").embeddings.numpy() for item in (earlier, model))
    assert (new[[1, 3, 4, 6, 7]] == old[[2, 3, 1, 4, 5]]).all()
    assert (
        model.get_layer("scores").kernel.numpy()[:, 1:] == earlier.get_layer("scores").kernel.numpy()
    ).all()


def test_a_vocabulary_without_known_weights_is_refused_only_where_it_changed(tmp_path: Path) -> None:
    folder = saved(tmp_path, build(3))
    warm.load(build(3), folder, meaning(layer=""))
    with pytest.raises(TrainingError, match="another vocabulary 'tokens'"):
        warm.load(build(3), folder, meaning(words=WORDS[::-1], layer=""))


def test_classes_that_no_weights_go_by_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path, build(3))
    told = warm.Meaning(CLASSES[::-1], meaning().tables, lambda count: build(3))
    with pytest.raises(TrainingError, match="other classes, and no weights"):
        warm.load(build(3), folder, told)


def test_another_network_is_refused_with_the_shape(tmp_path: Path) -> None:
    folder = saved(tmp_path, build(3))
    with pytest.raises(TrainingError, match=r"scores/kernel has shape \(5, 4\) here and \(5, 3\) there"):
        warm.load(build(4), folder, meaning())
    with pytest.raises(TrainingError, match="does not fit this one"):
        warm.load(build(3, norm=True), folder, meaning())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="cannot be read") as caught:
        warm.load(small.model(), str(tmp_path / "Format-Serving"), meaning())
    assert caught.value.place.endswith(contract.KERAS_MODEL)
