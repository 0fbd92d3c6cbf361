"""The `model:` section of an experiment file: networks for images and tables; those for texts are apart."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from modules.hparams.image import IMAGE_NETWORKS, KERAS_NETWORKS
from modules.hparams.tabular import TABULAR_NETWORKS
from pipelines.stage import Stage, known_network
from pipelines.text_stages import TextModel

Freeze = Literal["all", "none"] | Annotated[int, Field(ge=0)]


class Unfreeze(Stage):
    """A later stage of transfer, which begins where the best epoch of the one before stands."""

    freeze: Freeze = Field("none", description="As model.freeze, in this stage.")
    epochs: Annotated[int, Field(ge=1)] = Field(description="At most.")
    learning_rate: Annotated[float, Field(gt=0)] = Field(description="Peak; small, to keep what was learned.")
    train_norms: bool = Field(
        False, description="Whether batch normalisation learns too; small data is better off without."
    )

    @field_validator("freeze")
    @classmethod
    def _more_is_trained(cls, freeze: Freeze) -> Freeze:
        if freeze == "all":
            raise ValueError(
                "a later stage trains part of the backbone, or all of it: give none, or a number"
            )
        return freeze


def _known_image_network(name: str) -> str:
    return known_network(name, (*IMAGE_NETWORKS, *KERAS_NETWORKS), "image")


class Augment(Stage):
    """Random changes of training images, each image and each epoch by its own chance.

    Applied in this order; 0, false and 1.0 (of area) are off.
    """

    area: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0,
        description="A part of at least this share of the picture is cut out and brought to size. Below 1 "
        "pictures are decoded anew in every epoch.",
    )
    crop: Annotated[int, Field(ge=0, le=64)] = Field(
        0, description="Moved by up to so many pixels, edges mirrored; needs no resampling."
    )
    flip: bool = Field(False, description="Left and right exchanged, every second time.")
    rotation: Annotated[float, Field(ge=0, le=180)] = Field(0.0, description="Degrees, either way.")
    zoom: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="Share, in or out.")
    shift: Annotated[float, Field(ge=0, le=0.5)] = Field(0.0, description="Share of height and width.")
    brightness: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="Share of the range, either way."
    )
    contrast: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="Share, either way.")
    saturation: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="Share, either way; of RGB.")
    rand_layers: Annotated[int, Field(ge=0, le=8)] = Field(
        0, description="RandAugment: operations one after another, drawn for each image."
    )
    rand_magnitude: Annotated[float, Field(ge=0, le=1)] = Field(0.5, description="RandAugment: strength.")
    erase: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="Probability that a rectangle is filled with the image's mean."
    )
    erase_area: Annotated[float, Field(gt=0.02, le=1)] = Field(0.2, description="Its share at most.")
    mixup: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="Alpha; images and labels are mixed in pairs. Classification only."
    )
    cutmix: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="Alpha; a square of another image is pasted. With mixup too, each batch draws one."
    )


class ImageModel(Stage):
    """A network for images, and the size that they are brought to."""

    family: Literal["image"] = "image"
    name: Annotated[str, AfterValidator(_known_image_network)] = Field(
        "separable_resnet",
        description="separable_resnet, cifar_resnet, vit_tiny, vit_small, any network of keras.applications "
        "such as MobileNetV2, or module.function of your own.",
    )
    height: Annotated[int, Field(ge=4, le=1024)] = Field(32, description="Pixels.")
    width: Annotated[int, Field(ge=4, le=1024)] = Field(32, description="Pixels.")
    channels: Literal[1, 3, 4] = 3
    filters: list[Annotated[int, Field(ge=1, le=4096)]] = Field(
        [32, 64, 128], min_length=1, description="Channels of each stage; each later stage halves the size."
    )
    blocks_per_stage: Annotated[int, Field(ge=1, le=32)] = 2
    activation: Literal["swish", "relu", "mish"] = Field("swish", description="Of the residual networks.")
    patch: Annotated[int, Field(ge=1, le=64)] = Field(
        4, description="Side of a transformer's patches, in pixels."
    )
    normalization: Literal["auto", "data", "backbone"] = Field(
        "auto",
        description="data: mean and variance of the training split. backbone: as the network's authors did. "
        "auto: backbone with pretrained weights, else data.",
    )
    weights: str = Field(
        "none",
        description="none, imagenet (downloaded by Keras), or a .keras or .weights.h5 file or SavedModel, "
        "whose head is left out.",
    )
    freeze: Freeze = Field(
        "none",
        description="What rests while train.epochs are trained: all of the backbone, none of it, or its "
        "lowest N layers as Keras counts them.",
    )
    cache_features: bool = Field(
        True,
        description="With freeze: all, features are computed once, of unchanged images; false augments "
        "images and computes features in every epoch.",
    )
    unfreeze: list[Unfreeze] = Field([], description="Stages that follow, each with its own rate.")
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    augment: Augment = Augment()


def _known_table_network(name: str) -> str:
    return known_network(name, TABULAR_NETWORKS, "table")


class TabularModel(Stage):
    """A network for tables. Features come from the schema: texts and numbers, all but the label."""

    family: Literal["tabular"] = "tabular"
    name: Annotated[str, AfterValidator(_known_table_network)] = Field(
        "wide_and_deep", description="wide_and_deep, mlp, or module.function of your own."
    )
    task: Literal["classification", "regression"] = Field(
        "classification", description="regression: the label is a number, which is predicted in its own unit."
    )
    categorical: list[str] = Field([], description="Numbers that are codes, not amounts.")
    ignore: list[str] = Field([], description="Features that the model must not see.")
    crosses: list[Annotated[list[str], Field(min_length=2, max_length=3)]] = Field(
        [], description="Pairs or triples of features whose combinations count, for the wide part."
    )
    buckets: Annotated[int, Field(ge=2, le=1000)] = Field(10, description="Quantiles of each number.")
    vocabulary_size: Annotated[int, Field(ge=1)] = Field(1000, description="Most frequent values kept.")
    cross_buckets: Annotated[int, Field(ge=2)] = Field(1000, description="Hash buckets of each cross.")
    embedding: Annotated[int, Field(ge=1, le=1024)] = Field(8, description="Width for each category.")
    hidden: list[Annotated[int, Field(ge=1)]] = Field([64, 32], description="Widths of the dense layers.")
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1


FAMILIES: dict[str, type[Stage]] = {"image": ImageModel, "tabular": TabularModel, "text": TextModel}
Model = Annotated[ImageModel | TabularModel | TextModel, Field(discriminator="family")]
