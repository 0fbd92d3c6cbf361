"""What Transform and the trainer of texts are told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modules.hparams.families import field_names
from modules.hparams.text import TextInputHparams, TextModelHparams
from pipelines import inputs
from pipelines.config import Experiment
from pipelines.errors import InputError
from pipelines.text_stages import TextModel

_CONFIG = "config.json"
# The second of both is how KerasHub saves a preset.
_WEIGHTS = ("model.safetensors", "model.weights.h5")
_VOCABULARIES = ("vocab.txt", "assets/tokenizer/vocabulary.txt", "tokenizer.json")


def transform_config(experiment: Experiment, model: TextModel) -> dict[str, Any]:
    """As `TextInputHparams.from_config` reads it: no more than changes what Transform makes.

    Raises:
        InputError: published weights are not there.
    """
    data = experiment.data
    names = set(field_names(TextInputHparams)) & set(TextModel.model_fields)
    told = {
        **model.model_dump(include=names),
        "text_feature": data.text,
        "text_pair_feature": data.text_pair or "",
        "label_feature": data.label,
    }
    if model.name == "ngrams":
        told["tokens"] = "ngrams"
    if model.weights != "none":
        path = _published(model.weights)[-1]
        told.update(vocabulary_file=str(path), vocabulary_digest=inputs.digest([str(path)]))
    return told


def trainer_config(experiment: Experiment, model: TextModel) -> dict[str, Any]:
    """As `TextHparams.from_config` reads it.

    Raises:
        InputError: published weights are not there.
    """
    names = set(field_names(TextModelHparams))
    told = model.model_dump(include=names)
    if told["pretrain"] is not None:
        del told["pretrain"]["task"]
    told["freeze"] = str(told["freeze"])
    if model.weights != "none":
        files = _published(model.weights)
        told.update(weights=str(files[0].parent), weights_digest=inputs.digest(map(str, files)))
    return {
        "inputs": transform_config(experiment, model),
        "model": told,
        "train": experiment.train.model_dump(),
    }


def _published(folder: str) -> list[Path]:
    """Configuration, weights and vocabulary of a published encoder, by their whole paths."""
    root = Path(folder).expanduser().absolute()
    weights = _first(root, _WEIGHTS)
    files = [root / name for name in (_CONFIG, weights, _first(root, _VOCABULARIES))]
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise InputError(
            f"The folder with the weights lacks {', '.join(missing)}",
            place=str(root),
            remedy="Check model.weights: none, or a folder with config.json, model.safetensors and vocab.txt "
            "or tokenizer.json, or one that KerasHub's save_to_preset wrote.",
        )
    return files


def _first(root: Path, names: Sequence[str]) -> str:
    """The first that is there, or the first of all."""
    return next((name for name in names if (root / name).is_file()), names[0])
