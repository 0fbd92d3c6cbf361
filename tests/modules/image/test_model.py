"""Image models: shapes, probabilities, a falling loss, pretrained weights."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules import contract, export
from modules.errors import TrainingError
from modules.hparams.image import IMAGE_NETWORKS, KERAS_NETWORKS, ImageModelHparams
from modules.image import applications, networks
from modules.image import model as image_model
from modules.training import freezing

SMALL = "MobileNetV3Small"


def hparams(**changes) -> ImageModelHparams:
    settings = {
        "name": "separable_resnet",
        "height": 8,
        "width": 8,
        "channels": 1,
        "filters": (8, 16),
        "blocks_per_stage": 1,
        "dropout": 0.1,
    }
    return ImageModelHparams(**{**settings, **changes})


def build(**changes) -> keras.Model:
    chosen = hparams(**changes)
    channels = chosen.channels
    return image_model.build(chosen, class_count=3, mean=[100.0] * channels, variance=[2000.0] * channels)


def test_names_in_settings_are_those_that_there_are() -> None:
    assert sorted(networks.NETWORKS) == sorted(IMAGE_NETWORKS)
    assert sorted(applications.known()) == sorted(KERAS_NETWORKS)


@pytest.mark.parametrize("name", ["separable_resnet", "cifar_resnet", "vit_tiny"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_model_gives_probabilities(name: str, channels: int) -> None:
    for size in ((8, 8), (9, 13)):
        model = build(name=name, channels=channels, height=size[0], width=size[1])
        scores = np.asarray(model(np.full((3, *size, channels), 128.0, np.float32)))
        assert scores.shape == (3, 3)
        np.testing.assert_allclose(scores.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name.startswith("vit") or name == SMALL else ())
        for name in (*IMAGE_NETWORKS, SMALL)
    ],
)
def test_the_loss_of_every_model_falls_on_a_few_pictures(name: str) -> None:
    """Ten full batches of pictures that differ by brightness."""
    keras.utils.set_random_seed(3)
    size = 32 if name == SMALL else 8
    model = build(name=name, channels=1, height=size, width=size, dropout=0.0)
    labels = np.arange(12) % 3
    images = (60.0 + 70 * labels)[:, None, None, None] + np.random.default_rng(0).normal(
        0, 5, (12, size, size, 1)
    )
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
    losses = model.fit(images, labels, batch_size=12, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("activation", ["relu", "swish", "mish"])
def test_the_activation_is_the_one_that_is_asked_for(activation: str) -> None:
    model = build(activation=activation)
    assert model.get_layer("final_activation").activation is keras.activations.get(activation)


def test_depthwise_kernels_begin_with_the_variance_of_their_own_inputs() -> None:
    keras.utils.set_random_seed(3)
    made = build(name="separable_resnet", filters=(64, 64))
    layers = [layer for layer in made.layers if isinstance(layer, keras.layers.SeparableConv2D)]
    kernels = [np.asarray(layer.depthwise_kernel.numpy()) for layer in layers]
    for kernel in kernels:
        assert kernel.std() == pytest.approx((2 / 9) ** 0.5, rel=0.15)
    assert not np.allclose(kernels[0], kernels[1])


def test_a_constant_channel_does_not_divide_by_zero() -> None:
    model = image_model.build(hparams(), class_count=2, mean=[7.0], variance=[0.0])
    assert np.isfinite(np.asarray(model(np.full((1, 8, 8, 1), 7.0, np.float32)))).all()


def test_mistakes_in_settings_are_named() -> None:
    for changes, message in (
        ({"name": "resnet"}, "no image model 'resnet'"),
        ({"name": "nowhere.build"}, "no module 'nowhere'"),
        ({"weights": "imagenet"}, "has no published ImageNet weights"),
        ({"normalization": "backbone"}, "no normalisation of its own"),
        ({"name": "EfficientNetB0", "normalization": "data"}, "normalises pixels in its own first layers"),
        ({"name": "vit_tiny", "patch": 9}, "Patches of 9 pixels do not fit"),
        ({"weights": "/nowhere.keras"}, "does not exist"),
    ):
        with pytest.raises(TrainingError, match=message):
            build(**changes)


@pytest.mark.parametrize("name", ["ResNet50", "MobileNetV2", "DenseNet121"])
def test_own_normalisation_is_kerass(name: str) -> None:
    """Affine in each channel: compared on random pixels with the function that Keras publishes."""
    pixels = np.random.default_rng(0).uniform(0, 255, (2, 3, 3, 3)).astype(np.float32)
    own = applications.own_normalisation(name)
    ours = (pixels[..., ::-1] if own.reversed else pixels) * np.array(own.scale) + np.array(own.offset)
    module = {"ResNet50": "resnet", "MobileNetV2": "mobilenet_v2", "DenseNet121": "densenet"}[name]
    theirs = getattr(keras.applications, module).preprocess_input(pixels.copy())
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory) -> tuple[keras.Model, Path]:
    """A network without its head, and with it in all the forms that weights come in."""
    folder = tmp_path_factory.mktemp("weights")
    keras.utils.set_random_seed(7)
    whole = applications.bare(SMALL, top=True)
    whole.save(folder / "whole.keras")
    whole.save_weights(folder / "whole.weights.h5")
    headless = applications.bare(SMALL, top=False)
    for layer in headless.layers:
        layer.set_weights(whole.get_layer(layer.name).get_weights() if layer.weights else [])
    headless.save_weights(folder / "headless.weights.h5")
    decode = {contract.SIGNATURE_EXAMPLES: lambda raw: tf.zeros((tf.shape(raw)[0], 224, 224, 3))}
    export.save(str(folder / "saved_model"), whole, [str(index) for index in range(1000)], decode)
    return headless, folder


@pytest.mark.parametrize("file", ["whole.keras", "whole.weights.h5", "headless.weights.h5", "saved_model"])
def test_weights_of_every_form_give_the_networks_own_features(pretrained, file: str) -> None:
    headless, folder = pretrained
    model = build(name=SMALL, height=224, width=224, channels=3, weights=str(folder / file))
    images = np.random.default_rng(0).uniform(0, 255, (2, 224, 224, 3)).astype(np.float32)
    ours = keras.Model(model.inputs[0], model.get_layer(freezing.POOL).input)(images)
    theirs = np.asarray(headless(images))
    # Fresh weights make small features.
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max())


@pytest.mark.parametrize("channels", [1, 4])
def test_other_channels_reach_a_pretrained_network_as_three(pretrained, channels: int) -> None:
    """Grey as three equal channels; a transparent picture on white."""
    weights = str(pretrained[1] / "whole.keras")
    keras.utils.set_random_seed(9)
    model = build(name=SMALL, height=64, width=64, channels=channels, weights=weights)
    keras.utils.set_random_seed(9)
    rgb = build(name=SMALL, height=64, width=64, channels=3, weights=weights)
    if channels == 1:
        images = np.full((1, 64, 64, 1), 80.0, np.float32)
        same = np.repeat(images, 3, axis=-1)
    else:
        images = np.concatenate([np.full((1, 64, 64, 3), 10.0), np.zeros((1, 64, 64, 1))], -1)
        same = np.full((1, 64, 64, 3), 255.0, np.float32)
    scores = np.asarray(model(images.astype(np.float32)))
    np.testing.assert_allclose(scores, np.asarray(rgb(same)), atol=1e-5)


def test_weights_of_another_network_are_refused(pretrained, tmp_path: Path) -> None:
    _, folder = pretrained
    for file, message in (("whole.keras", "do not fit"), ("whole.weights.h5", "do not fit")):
        with pytest.raises(TrainingError, match=message):
            build(name="MobileNet", height=32, width=32, channels=3, weights=str(folder / file))
    (tmp_path / "cut.keras").write_bytes((folder / "whole.keras").read_bytes()[:1000])
    with pytest.raises(TrainingError, match="cannot be read"):
        build(name=SMALL, height=32, width=32, channels=3, weights=str(tmp_path / "cut.keras"))
    (tmp_path / "weights.txt").write_text("")
    with pytest.raises(TrainingError, match=r"\.keras or \.weights\.h5"):
        build(name=SMALL, height=32, width=32, channels=3, weights=str(tmp_path / "weights.txt"))


def test_a_download_that_fails_says_which_file_to_put_where(monkeypatch) -> None:
    def failing(*args: object, **kwargs: object) -> str:
        raise Exception("URL fetch failure on https://example.org/models/net_no_top.h5: 404 -- Not Found")

    monkeypatch.setattr("keras.src.applications.mobilenet_v2.file_utils.get_file", failing)
    with pytest.raises(TrainingError, match="cannot be downloaded") as caught:
        build(name="MobileNetV2", height=96, width=96, channels=3, weights="imagenet")
    assert "https://example.org/models/net_no_top.h5" in caught.value.remedy
    assert "models/net_no_top.h5; or" in caught.value.remedy


@pytest.mark.parametrize("name", ["cifar_resnet", "separable_resnet"])
@pytest.mark.parametrize("channels", [1, 4])
def test_weights_of_our_own_networks_come_back(tmp_path: Path, name: str, channels: int) -> None:
    """As they were trained: nothing is made three channels of for them."""
    earlier = build(name=name, channels=channels)
    for variable in earlier.variables:
        variable.assign(variable + 0.1)
    earlier.save(tmp_path / "model.keras")
    model = build(name=name, channels=channels, weights=str(tmp_path / "model.keras"))
    images = np.random.default_rng(0).uniform(0, 255, (2, 8, 8, channels)).astype(np.float32)
    ours, theirs = (
        keras.Model(made.inputs[0], made.get_layer(freezing.POOL).output)(images) for made in (model, earlier)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
