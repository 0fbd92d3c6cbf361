"""Experiments: the stages together, loaded from files with overrides.

    experiment = load("digits", overrides=["train.batch_size=64"])

Unknown keys and bad values fail with the nearest known name.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from pipelines import remote
from pipelines.beam_stage import Beam
from pipelines.data_stages import Data, Validation
from pipelines.errors import ConfigError, NotFoundError, nearest
from pipelines.kubeflow_stage import Kubeflow
from pipelines.model_stages import FAMILIES, ImageModel, Model
from pipelines.retraining.settings import Retraining
from pipelines.stage import Stage
from pipelines.stages import Card, Evaluation, Infra, Metadata, Push, Retry, Rewrite
from pipelines.train_stages import Train
from pipelines.tuning import Tune, check

EXPERIMENTS = Path(__file__).parent / "experiments"


class Experiment(Stage):
    """A named configuration."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
    description: str = ""
    needs: str = Field("", description="What must be there before it runs, in words.")
    takes: str = Field("", description="How long it takes and what it reaches, in words.")
    data: Data
    validation: Validation = Validation()
    model: Model = ImageModel()
    train: Train = Train()
    tune: Tune | None = Field(None, description="A search for hyperparameters before training.")
    rewrite: Rewrite = Rewrite()
    evaluation: Evaluation = Evaluation()
    infra: Infra = Infra()
    push: Push = Push()
    card: Card = Card()
    beam: Beam = Beam()
    metadata: Metadata | None = Field(
        None, description="A database server for the record, instead of metadata.db in the workspace."
    )
    retry: dict[str, Retry] = Field({}, description="Node -> when it is tried again; by default never.")
    timeouts_s: dict[str, Annotated[float, Field(gt=0)]] = Field(
        {}, description="Node -> seconds that a try may take; by default any."
    )
    kubeflow: Kubeflow = Kubeflow()
    retraining: Retraining = Retraining()

    @model_validator(mode="before")
    @classmethod
    def _images_by_default(cls, raw: Any) -> Any:
        """A model without a family is one for images."""
        model = raw.get("model") if isinstance(raw, dict) else None
        if isinstance(model, dict) and "family" not in model:
            return {**raw, "model": {"family": "image", **model}}
        return raw

    @model_validator(mode="after")
    def _tunable(self) -> Experiment:
        if self.tune is not None:
            settings = self.model_dump(exclude={"tune"})
            check(self.tune, self.model.family, settings, type(self).model_validate)
        return self

    @model_validator(mode="after")
    def _loss_of_the_task(self) -> Experiment:
        regression = getattr(self.model, "task", "") == "regression"
        of_classes = self.train.loss in ("cross_entropy", "focal")
        if self.train.loss is not None and regression == of_classes:
            task = "regression" if regression else "classification"
            raise ValueError(f"train.loss={self.train.loss} does not fit a {task}")
        return self

    @model_validator(mode="after")
    def _what_can_be_compressed(self) -> Experiment:
        if self.train.prune is not None and getattr(self.model, "lora", None) is not None:
            raise ValueError("train.prune does not go with model.lora, whose kernels rest and are merged")
        if self.train.quantize_aware is not None and self.train.recompute:
            raise ValueError(
                "train.recompute does not go with train.quantize_aware, whose rounded kernels lie outside "
                "of what is computed again"
            )
        if self.train.distill is not None and getattr(self.model, "task", "") == "regression":
            raise ValueError("train.distill needs classes; model.task is regression")
        return self

    @property
    def model_name(self) -> str:
        """The model's name in the serving folder."""
        return self.push.model or self.name


def names() -> list[str]:
    """The experiments that ship."""
    return sorted(path.stem for path in EXPERIMENTS.glob("*.yaml"))


def load(experiment: str, overrides: Sequence[str] = ()) -> Experiment:
    """Loads an experiment by name or file and applies `key=value` overrides.

    Raises:
        NotFoundError: there is no such experiment or file.
        InputError: an address cannot be read.
        ConfigError: the file or an override is not understood.
    """
    stem, place, found = _read(experiment)
    raw = {"name": stem, **found}
    for override in overrides:
        _override(raw, override)
    return _validate(raw, place, overrides)


def read(experiment: str) -> dict[str, Any]:
    """The keys and values of an experiment's file, as they stand there.

    Raises:
        NotFoundError, ConfigError: see `load`.
    """
    return _read(experiment)[2]


def from_mapping(raw: Mapping[str, Any], overrides: Sequence[str] = ()) -> Experiment:
    """An experiment from keys and values, with `key=value` overrides applied.

    Raises:
        ConfigError: a key or value is not understood.
    """
    copied = copy.deepcopy(dict(raw))
    for override in overrides:
        _override(copied, override)
    return _validate(copied, "command line", overrides)


def beam_of(overrides: Sequence[str]) -> Beam:
    """The `beam` group alone, from `beam.key=value` overrides.

    Raises:
        ConfigError: a key or value is not understood.
    """
    return from_mapping({"name": "beam", "data": {"source": "digits"}}, overrides).beam


def _read(experiment: str) -> tuple[str, str, dict[str, Any]]:
    """Name, place and contents of an experiment's file, here or at an address."""
    if remote.is_remote(experiment):
        place = remote.without_secrets(experiment)
        return PurePosixPath(place).stem, place, _parse(remote.read(experiment), place)
    path = _find(experiment)
    return path.stem, str(path), _parse(path.read_bytes(), str(path))


def _find(experiment: str) -> Path:
    if experiment.endswith((".yaml", ".yml")) or "/" in experiment:
        path = Path(experiment)
        if not path.is_file():
            raise NotFoundError(
                "There is no such experiment file", place=experiment, remedy="Check the path."
            )
        return path
    path = EXPERIMENTS / f"{experiment}.yaml"
    if not path.is_file():
        own = Path(f"{experiment}.yaml")
        known = f"{nearest(experiment, names())} A file of your own is named with its path."
        raise NotFoundError(
            f"There is no experiment {experiment!r}",
            place="experiments",
            remedy=f"Did you mean the file {own}?" if own.is_file() else known,
        )
    return path


def _parse(text: bytes, source: str) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(text.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source}, line {mark.line + 1}" if mark else source
        raise ConfigError(
            f"An experiment file is no YAML: {getattr(error, 'problem', None) or error}", place=place
        ) from error
    if not isinstance(raw, dict):
        raise ConfigError("An experiment file should hold keys and values", place=source)
    return raw


def _override(raw: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(
            f"An override should look like key=value. Received: {override!r}",
            place="--set",
            remedy="For example --set train.batch_size=64.",
        )
    *parents, last = key.split(".")
    target = raw
    for parent in parents:
        target = target.setdefault(parent, {})
        if not isinstance(target, dict):
            raise ConfigError(f"{parent!r} in {key!r} is a value, not a group of keys", place="--set")
    try:
        target[last] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"The value of {key!r} is not understood: {text!r}", place="--set") from error


def _with_text_keys(value: Any) -> Any:
    """YAML 1.1 reads a bare `on:`, as in `retry`, as the key true."""
    if isinstance(value, Mapping):
        names = {True: "on", False: "off"}
        return {
            names[key] if isinstance(key, bool) else key: _with_text_keys(item) for key, item in value.items()
        }
    return [_with_text_keys(item) for item in value] if isinstance(value, list) else value


def _validate(raw: Mapping[str, Any], source: str, overrides: Sequence[str]) -> Experiment:
    try:
        return Experiment.model_validate(_with_text_keys(raw))
    except ValidationError as error:
        first = error.errors()[0]
        first["loc"] = _without_family(_without_kinds(first["loc"]))
        key = ".".join(str(part) for part in first["loc"])
        given = [item.split("=")[0] for item in overrides]
        is_set = key and any(item.startswith(key) or key.startswith(item) for item in given)
        where = "--set" if is_set else source
        raise _config_error(first, key, where, error.error_count() - 1) from error


def _without_kinds(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """pydantic names the kinds that a value may be of behind its key; users wrote none."""
    return tuple(part for part in location if not (isinstance(part, str) and "[" in part))


def _without_family(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """pydantic puts the chosen family behind `model`; users wrote no such key."""
    if len(location) > 1 and location[0] == "model" and location[1] in FAMILIES:
        return ("model", *location[2:])
    return location


def _config_error(first: Any, key: str, where: str, others: int) -> ConfigError:
    more = f" ({others} more)" if others > 0 else ""
    place = f"{where}, {key}" if key else where
    if first["type"] == "extra_forbidden":
        return ConfigError(
            f"Unknown key {key!r}{more}",
            place=place,
            remedy=nearest(_last(key), known_keys(first["loc"][:-1])),
        )
    if first["type"] == "missing":
        return ConfigError(
            f"The key {key!r} is missing{more}", place=place, remedy=f"Add {key}: to the file."
        )
    message = first["msg"].removeprefix("Value error, ")
    received = "" if first["type"] == "value_error" else f". Received: {_last(key)}={first['input']!r}"
    return ConfigError(f"Bad value: {message}{received}{more}", place=place)


def _last(key: str) -> str:
    return key.rsplit(".", 1)[-1]


def known_keys(location: Sequence[str | int]) -> list[str]:
    """The keys that a group of the schema knows; the groups are named by `location`."""
    if location and location[0] == "model":
        return sorted({name for family in FAMILIES.values() for name in family.model_fields})
    stage: type[BaseModel] = Experiment
    for part in location:
        field = stage.model_fields.get(str(part))
        groups = [
            kind
            for kind in (field.annotation, *get_args(field.annotation))
            if isinstance(kind, type) and issubclass(kind, BaseModel)
        ] if field else []  # fmt: skip
        if not groups:
            return []
        stage = groups[0]
    return list(stage.model_fields)


def to_json(experiment: Experiment) -> str:
    """The whole configuration, defaults included, as it is recorded with a run."""
    return json.dumps(experiment.model_dump(mode="json"), sort_keys=True)
