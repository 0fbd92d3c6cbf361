"""A user's own project: an experiment, a network of their own, its test, a README.

written = create(Path("cats"), "digits")
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipelines import config, project_files
from pipelines.errors import ConfigError, WorkspaceError

_NETWORK = "network.build"
_NOT_OF_ITS_NETWORK = (
    *("weights", "freeze", "unfreeze", "cache_features", "patch", "normalization"),
    *("word_ngrams", "character_ngrams", "buckets", "pretrain", "lora"),
)


@dataclass(frozen=True)
class _Family:
    """The files of a family of models, and settings of `train:` that fit its experiments' networks alone."""

    network: str
    test: str
    of_its_network: tuple[str, ...] = ()


_FAMILIES = {
    "image": _Family(project_files.IMAGE_NETWORK, project_files.IMAGE_TEST),
    "tabular": _Family(project_files.TABLE_NETWORK, project_files.TABLE_TEST),
    # A bag of n-grams learns at ten times the rate of others, without decay.
    "text": _Family(project_files.TEXT_NETWORK, project_files.TEXT_TEST, ("learning_rate", "weight_decay")),
}


def create(folder: Path, experiment: str) -> list[Path]:
    """Writes the project and returns its files, the experiment first.

    Args:
        folder: new, or empty.
        experiment: name or file of the experiment to start from.

    Raises:
        NotFoundError: there is no such experiment.
        ConfigError: the folder is not empty, or gives no name.
        WorkspaceError: the folder cannot be written.
    """
    name = _name(folder)
    source = config.load(experiment)
    family = _FAMILIES[source.model.family]
    files = {
        f"{name}.yaml": _experiment(name, experiment, family),
        "network.py": family.network.format(experiment=name),
        "test_network.py": family.test,
        "README.md": project_files.README.format(experiment=name),
        ".gitignore": project_files.GITIGNORE,
    }
    return _write(folder, files)


def _name(folder: Path) -> str:
    """The folder's name as an experiment's: lower case, digits, - and _."""
    name = re.sub(r"[^a-z0-9_-]+", "-", folder.absolute().name.lower()).strip("-_")[:40]
    if not re.match(r"[a-z]", name):
        raise ConfigError(
            f"The folder's name gives no experiment name: {folder.name!r}",
            place=str(folder),
            remedy="It should begin with a letter.",
        )
    return name


def _experiment(name: str, source: str, family: _Family) -> str:
    raw = copy.deepcopy(config.read(source))
    for key in ("name", "needs", "takes"):
        raw.pop(key, None)
    raw["description"] = f"{name}, which began as {Path(source).stem}"
    model: dict[str, Any] = raw.setdefault("model", {})
    kept = {key: value for key, value in model.items() if key not in _NOT_OF_ITS_NETWORK}
    raw["model"] = {**kept, "name": _NETWORK}
    # A teacher lies in the workspace where it was trained, and a bag of n-grams may be 0 wide.
    for key in (*family.of_its_network, "distill"):
        raw.get("train", {}).pop(key, None)
    if raw["model"].get("width") == 0:
        del raw["model"]["width"]
    _from_anywhere(raw)
    head = (
        f"# headrace run {name}.yaml     (in this folder)\n"
        "# All keys: headrace's docs/reference/experiment.md.\n"
    )
    return head + yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, width=100)


def _from_anywhere(raw: dict[str, Any]) -> None:
    """Files that are named from here are named from everywhere: the project runs in its own folder."""
    for section, key in (("data", "path"), ("validation", "schema_file")):
        given = (raw.get(section) or {}).get(key)
        if isinstance(given, str) and "://" not in given and Path(given).exists():
            raw[section][key] = str(Path(given).absolute())


def _write(folder: Path, files: dict[str, str]) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = sorted(item.name for item in folder.iterdir())
        if taken:
            raise ConfigError(
                f"The folder is not empty: it holds {taken[0]}",
                place=str(folder),
                remedy="Name a new folder; nothing is overwritten.",
            )
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WorkspaceError(
            f"The folder cannot be written: {error.strerror or error}",
            place=str(error.filename or folder),
            remedy="Name one that you may write to.",
        ) from error
    return [folder / file for file in files]
