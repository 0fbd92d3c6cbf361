"""What preprocessing and training of images are told, and which networks there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from modules.hparams.reading import with_tuples
from modules.hparams.train import TrainHparams

IMAGE_NETWORKS = ("cifar_resnet", "separable_resnet", "vit_small", "vit_tiny")
"""Image networks of our own, by name."""


KERAS_NETWORKS = (
    "ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtSmall", "ConvNeXtTiny", "ConvNeXtXLarge",
    "DenseNet121", "DenseNet169", "DenseNet201",
    "EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3", "EfficientNetB4",
    "EfficientNetB5", "EfficientNetB6", "EfficientNetB7",
    "EfficientNetV2B0", "EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3",
    "EfficientNetV2L", "EfficientNetV2M", "EfficientNetV2S",
    "InceptionResNetV2", "InceptionV3", "MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small",
    "NASNetLarge", "NASNetMobile", "ResNet101", "ResNet101V2", "ResNet152", "ResNet152V2",
    "ResNet50", "ResNet50V2", "VGG16", "VGG19", "Xception",
)  # fmt: skip
"""Image networks of `keras.applications`, by their names there."""


@dataclass(frozen=True)
class UnfreezeHparams:
    """A later stage of transfer; see `modules.training.transfer`."""

    freeze: int | str
    epochs: int
    learning_rate: float
    train_norms: bool = False


@dataclass(frozen=True)
class AugmentHparams:
    """Random changes of training images; `pipelines.model_stages.Augment` describes each field."""

    area: float = 1.0
    crop: int = 0
    flip: bool = False
    rotation: float = 0.0
    zoom: float = 0.0
    shift: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    rand_layers: int = 0
    rand_magnitude: float = 0.5
    erase: float = 0.0
    erase_area: float = 0.2
    mixup: float = 0.0
    cutmix: float = 0.0


@dataclass(frozen=True)
class ImageModelHparams:
    """The network, and the size in pixels that images are brought to.

    `pipelines.model_stages.ImageModel` describes each field.
    """

    name: str
    height: int
    width: int
    channels: int
    filters: tuple[int, ...]
    blocks_per_stage: int
    dropout: float
    augment: AugmentHparams = AugmentHparams()
    activation: str = "swish"
    patch: int = 4
    normalization: str = "auto"
    weights: str = "none"
    freeze: int | str = "none"
    cache_features: bool = True
    unfreeze: tuple[UnfreezeHparams, ...] = ()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads a JSON-like mapping; lists become tuples."""
        values = with_tuples(config, ("filters",))
        values["augment"] = AugmentHparams(**values.get("augment", {}))
        values["unfreeze"] = tuple(UnfreezeHparams(**stage) for stage in values.get("unfreeze", ()))
        return cls(**values)


@dataclass(frozen=True)
class ImageHparams:
    """Everything that preprocessing and training of images is told."""

    image_feature: str
    label_feature: str
    model: ImageModelHparams
    train: TrainHparams
    state_root: str = ""
    weights_digest: str = ""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        return cls(
            image_feature=config["image_feature"],
            label_feature=config["label_feature"],
            model=ImageModelHparams.from_config(config["model"]),
            train=TrainHparams.from_config(config["train"]),
            state_root=config.get("state_root", ""),
            weights_digest=config.get("weights_digest", ""),
        )


@dataclass(frozen=True)
class ImageInputHparams:
    """What Transform is told of images: no more than changes its result, so that little re-runs it."""

    image_feature: str
    label_feature: str
    height: int
    width: int
    channels: int
