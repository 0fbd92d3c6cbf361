"""The text of the files that `headrace init` writes."""

from __future__ import annotations

IMAGE_NETWORK = '''"""A network of your own, which {experiment}.yaml names as `network.build`."""

import keras


@keras.saving.register_keras_serializable(package="network")
class ChannelGate(keras.layers.Layer):
    """Weighs each channel by what the whole picture shows (squeeze and excitation, arXiv:1709.01507).

    An example of a layer of one's own: (B, H, W, C) to (B, H, W, C).
    """

    def __init__(self, reduction=4, **options):
        super().__init__(**options)
        self.reduction = reduction

    def build(self, input_shape):
        channels = input_shape[-1]
        self.squeeze = keras.layers.Dense(max(channels // self.reduction, 1), activation="relu")
        self.excite = keras.layers.Dense(channels, activation="sigmoid")
        self.squeeze.build((None, channels))
        self.excite.build((None, self.squeeze.units))

    def call(self, images):
        share = self.excite(self.squeeze(keras.ops.mean(images, axis=(1, 2))))
        return images * share[:, None, None, :]

    def get_config(self):
        return {{**super().get_config(), "reduction": self.reduction}}


def build(pixels, hparams):
    """Normalised pixels (B, H, W, C) to features (B, h, w, D); Headrace adds what is before and after.

    `hparams` are the experiment's `model:` settings, such as `hparams.filters`.
    """
    x = pixels
    for index, filters in enumerate(hparams.filters):
        strides = 2 if index else 1
        x = keras.layers.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization(momentum=0.9)(x)
        x = keras.layers.Activation(hparams.activation)(x)
        x = ChannelGate()(x)
    return x
'''

IMAGE_TEST = '''"""python -m pytest"""

from types import SimpleNamespace

import keras
import numpy as np

import network


def test_features_come_out_smaller_and_wider():
    pixels = keras.Input((8, 8, 1))
    features = network.build(pixels, SimpleNamespace(filters=(8, 16), activation="swish"))
    assert features.shape == (None, 4, 4, 16)


def test_the_gate_keeps_the_shape_and_only_weakens():
    images = np.ones((2, 4, 4, 8), "float32")
    gated = np.asarray(network.ChannelGate()(images))
    assert gated.shape == images.shape
    assert (gated > 0).all() and (gated < 1).all()
'''

TABLE_NETWORK = '''"""A network of your own, which {experiment}.yaml names as `network.build`."""

import keras


@keras.saving.register_keras_serializable(package="network")
class Cross(keras.layers.Layer):
    """Multiplies the features with a weighing of themselves (Wang et al., 2020, arXiv:2008.13535).

    An example of a layer of one's own: (B, D) to (B, D).
    """

    def build(self, input_shape):
        self.weigh = keras.layers.Dense(input_shape[-1])
        self.weigh.build(input_shape)

    def call(self, features):
        return features * self.weigh(features) + features


def build(parts, outputs):
    """The parts of a row to (B, outputs) logits; Headrace adds what is before and after.

    `parts.embedded(width, name, crosses=...)` gives an embedding of each category and
    bucket, `parts.scores` the numbers; `parts.hparams` are the `model:` settings.
    """
    features = parts.embedded(parts.hparams.embedding, "own", crosses=False)
    if parts.scores is not None:
        features.append(parts.scores)
    x = keras.layers.Concatenate()(features) if len(features) > 1 else features[0]
    x = Cross()(x)
    for width in parts.hparams.hidden:
        x = keras.layers.Dense(width, activation="relu")(x)
        x = keras.layers.Dropout(parts.hparams.dropout)(x)
    return keras.layers.Dense(outputs)(x)
'''

TABLE_TEST = '''"""python -m pytest"""

import numpy as np

import network


def test_crossing_keeps_the_shape():
    features = np.ones((2, 5), "float32")
    assert np.asarray(network.Cross()(features)).shape == features.shape
'''

TEXT_NETWORK = '''"""A network of your own, which {experiment}.yaml names as `network.build`."""

import keras


@keras.saving.register_keras_serializable(package="network")
class GatedConvolution(keras.layers.Layer):
    """Adds what a gate lets through of each token and its neighbours (gated convolution, arXiv:1612.08083).

    An example of a layer of one's own: [(B, L, D) features, (B, L) 1 for real tokens] to (B, L, D).
    Padding stays 0, so that an answer does not depend on how far a batch is padded.
    """

    def __init__(self, size=3, **options):
        super().__init__(**options)
        self.size = size

    def build(self, input_shape):
        shape = input_shape[0]
        self.mix = keras.layers.Conv1D(2 * shape[-1], self.size, padding="same")
        self.mix.build(shape)

    def call(self, inputs):
        features, real = inputs
        values, gates = keras.ops.split(self.mix(features), 2, axis=-1)
        mixed = features + values * keras.ops.sigmoid(gates)
        return mixed * keras.ops.cast(real, mixed.dtype)[..., None]

    def compute_output_shape(self, input_shape):
        return input_shape[0]

    def get_config(self):
        return {{**super().get_config(), "size": self.size}}


def build(parts, outputs):
    """A text's tokens to (B, outputs) logits; Headrace adds what is before and after.

    `parts.embedded()` gives (B, L, width), `parts.real` which tokens are no padding, `parts.pooled`
    one vector of each text; `parts.hparams` are the `model:` settings.
    """
    x = parts.embedded()
    for _ in range(parts.hparams.layers):
        x = GatedConvolution()([x, parts.real])
    x = keras.layers.Dropout(parts.hparams.dropout)(parts.pooled(x))
    return keras.layers.Dense(outputs)(x)
'''

TEXT_TEST = '''"""python -m pytest"""

import numpy as np

import network


def test_padding_changes_nothing_and_stays_silent():
    layer = network.GatedConvolution()
    features = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    real = np.ones((2, 5), "float32")
    alone = np.asarray(layer([features, real]))
    assert alone.shape == (2, 5, 8)
    wide = [np.pad(features, [(0, 0), (0, 3), (0, 0)]), np.pad(real, [(0, 0), (0, 3)])]
    padded = np.asarray(layer(wide))
    np.testing.assert_allclose(padded[:, :5], alone, atol=1e-6)
    assert not padded[:, 5:].any()
'''

README = """# {experiment}

```bash
headrace run {experiment}.yaml     # in this folder: from data to workspace/serving/{experiment}/1
headrace show latest
headrace report latest
python -m pytest
```

| file | |
|---|---|
| `{experiment}.yaml` | the experiment: only what differs from the defaults |
| `network.py` | your own network and layer; change it, and only the nodes that use it run again |
| `test_network.py` | its tests |

For data of your own, replace `data:`, for example `data: {{path: photos/}}` for a folder of images, or
`data: {{path: rows.csv, label: column}}` for a table or texts. Any other network is named in `model.name`.
"""

GITIGNORE = "workspace/\n__pycache__/\n"
