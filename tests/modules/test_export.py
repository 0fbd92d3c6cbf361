"""What is exported loads without us, and keeps the functions that the rewriter needs."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules import contract, export


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model of the length of a text, exported with two ways of getting at it."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((1,), name="length")
    model = keras.Model(inputs, keras.layers.Dense(2, activation="softmax")(inputs))

    def lengths(texts):
        return tf.cast(tf.strings.length(texts), tf.float32)[:, tf.newaxis]

    folder = str(tmp_path_factory.mktemp("export") / "model")
    export.save(
        folder,
        model,
        ["no", "yes"],
        {contract.SIGNATURE_EXAMPLES: lengths, contract.SIGNATURE_IMAGE: lengths},
    )
    return folder, model


def test_both_signatures_give_the_models_scores_and_names(exported) -> None:
    folder, model = exported
    loaded = tf.saved_model.load(folder)
    texts = tf.constant(["a", "bcd", ""])
    expected = np.asarray(model(np.array([[1.0], [3.0], [0.0]], np.float32)))
    for signature in contract.FAMILY_SIGNATURES["image"]:
        _, name = contract.PREPROCESS_FUNCTIONS[signature]
        answer = loaded.signatures[signature](**{name: texts})
        np.testing.assert_allclose(answer[contract.OUTPUT_SCORES].numpy(), expected, atol=1e-6)
        assert answer[contract.OUTPUT_CLASSES].numpy().tolist() == [[b"no", b"yes"]] * 3


def test_the_parts_stay_callable_after_loading(exported) -> None:
    folder, model = exported
    loaded = tf.saved_model.load(folder)
    before = getattr(loaded, contract.PREPROCESSING_MODULE)
    tensor = before.preprocess_examples(tf.constant(["ab"]))
    assert tensor.numpy().tolist() == [[2.0]]
    core = getattr(loaded, contract.CORE_FUNCTION)
    np.testing.assert_allclose(core(tensor).numpy(), np.asarray(model(tensor)), atol=1e-6)
    assert getattr(loaded, contract.CLASS_NAMES_FUNCTION)().numpy().tolist() == [b"no", b"yes"]


def test_weights_are_written_once(exported) -> None:
    folder, model = exported
    reader = tf.train.load_checkpoint(f"{folder}/variables/variables")
    shapes = [shape for name, shape in reader.get_variable_to_shape_map().items() if "VARIABLE_VALUE" in name]
    assert sorted(map(tuple, shapes)) == sorted(tuple(variable.shape) for variable in model.variables)
