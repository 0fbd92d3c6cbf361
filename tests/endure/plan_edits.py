"""Edits what pipelines are compiled from by seeded chance, and asks for the compiled pipeline after each.

    tally = endure(root, edits=200, seed=1)

The experiment, its data, schema, weights, teacher and modules go the way of a
run (`config.load`, `run.template_of`): a kept pipeline that is taken must be
the very one that would be compiled now, and one of a state that was there
before must not be compiled again.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pipelines import compiling, config, plans, run
from pipelines.workspace import Workspace
from tests.endure.tally import Tally

EXPERIMENT: dict[str, Any] = {
    "data": {"path": "data.tfrecord", "label": "label", "image": "image"},
    "model": {
        "family": "image",
        "name": "network.build",
        "height": 8,
        "width": 8,
        "channels": 1,
        "weights": "base.weights.h5",
    },
    "train": {"epochs": 2, "batch_size": 32, "distill": {"teacher": "./teacher.keras", "alpha": 0.5}},
    "validation": {"schema_file": "schema.pbtxt"},
    "evaluation": {"min_accuracy": 0.2},
}
SETTINGS = (("train", "epochs"), ("train", "batch_size"), ("model", "height"))

FILES = {
    "data.tfrecord": b"some records",
    "schema.pbtxt": b"# none yet, 0\n",
    "base.weights.h5": b"weights 0",
    "teacher.keras": b"teacher 0",
}
"""Files whose bytes count, with what they hold at first."""

MODULES = {
    "network": "import layers\n\nVALUE = {value}\n\n\ndef build(hparams):\n    return layers\n",
    "layers": "VALUE = {value}\n",
    "unrelated": "VALUE = {value}\n",
}
COUNTED = ("network", "layers")
"""Modules that the experiment names, or that one of those imports."""

_VARIANTS = 3
"""Each file and value goes to and fro between so many, so that earlier states come again."""


@dataclass
class State:
    """What the project is like now."""

    contents: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    values: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MODULES, 0))
    settings: dict[tuple[str, str], int] = field(
        default_factory=lambda: {place: EXPERIMENT[place[0]][place[1]] for place in SETTINGS}
    )

    def counted(self) -> tuple[Any, ...]:
        """All that the compiled pipeline should depend on."""
        modules = [self.values[name] for name in COUNTED]
        return (*sorted(self.contents.items()), *modules, *sorted(self.settings.items()))


class Project:
    """A project under edit, and the pipelines that should be kept for it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root / "project"
        self.root.mkdir(parents=True)
        self.workspace = Workspace.open(root / "workspace", create=True)
        self.rng, self.state, self.tally = random.Random(seed), State(), Tally()
        self._known: set[tuple[Any, ...]] = set()
        for name, data in FILES.items():
            (self.root / name).write_bytes(data)
        for name in MODULES:
            self.write_module(name)
        self.write_experiment()

    def write_module(self, name: str, comment: str = "") -> None:
        text = MODULES[name].format(value=self.state.values[name])
        (self.root / f"{name}.py").write_text(comment + text)

    def write_experiment(self, order: Callable[[list[Any]], None] = lambda items: None) -> None:
        told = {name: dict(section) for name, section in EXPERIMENT.items()}
        for (section, key), value in self.state.settings.items():
            told[section][key] = value
        (self.root / "plans.yaml").write_text(yaml.safe_dump(_ordered(told, order), sort_keys=False))

    def edit(self) -> str:
        """Makes one edit; returns its kind."""
        kind = self.rng.choice(list(EDITS))
        EDITS[kind](self)
        self.tally.edits[kind] += 1
        return kind

    def ask(self, what: str) -> None:
        """Asks for the compiled pipeline and judges whether it was kept, and is the right one."""
        compiled: list[str] = []
        with contextlib.chdir(self.root):
            experiment = config.load("plans.yaml")
            _, template = run.template_of(
                experiment, self.workspace, run.Options(), lambda: compiled.append(what)
            )
            state = self.state.counted()
            if compiled:
                self.tally.executed += 1
                self.tally.needless += [what] if state in self._known else []
            else:
                self.tally.cached += 1
                now = compiling.compile_template(experiment, self.workspace, cache=True)
                same = plans.settings_of(template) == plans.settings_of(now)
                self.tally.stale += [] if same and state in self._known else [what]
        self._known.add(state)


def _ordered(value: Any, order: Callable[[list[Any]], None]) -> Any:
    if not isinstance(value, dict):
        return value
    items = [(key, _ordered(item, order)) for key, item in value.items()]
    order(items)
    return dict(items)


def _replace(project: Project, name: str, data: bytes) -> None:
    """Another file under the same name; half of the time with the time stamp of the one before."""
    path, stat = project.root / name, (project.root / name).stat()
    project.state.contents[name] = data
    scratch = path.with_name("scratch")
    scratch.write_bytes(data)
    if project.rng.random() < 0.5:
        os.utime(scratch, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    scratch.replace(path)


def _variant(project: Project, name: str) -> None:
    _replace(project, name, FILES[name][:-2] + str(project.rng.randrange(_VARIANTS)).encode() + b"\n")


def _flip(project: Project) -> None:
    """One bit of one byte, in place, with the time stamp put back."""
    path = project.root / "data.tfrecord"
    data, stat = bytearray(path.read_bytes()), path.stat()
    data[project.rng.randrange(_VARIANTS)] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    project.state.contents["data.tfrecord"] = bytes(data)


def _setting(project: Project) -> None:
    place = project.rng.choice(SETTINGS)
    first = EXPERIMENT[place[0]][place[1]]
    project.state.settings[place] = first + project.rng.randrange(_VARIANTS)
    project.write_experiment()


def _module(project: Project, name: str) -> None:
    project.state.values[name] = project.rng.randrange(_VARIANTS)
    project.write_module(name)


def _comment(project: Project) -> None:
    project.write_module(project.rng.choice(COUNTED), f"# {project.rng.random()}\n")


def _new_file(project: Project) -> None:
    (project.root / f"more_{project.rng.randrange(10**6)}.py").write_text("X = 1\n")


def _touch(project: Project) -> None:
    path = project.root / project.rng.choice([*FILES, "plans.yaml", "network.py"])
    when = time.time() + project.rng.randrange(-(10**6), 10**6)
    os.utime(path, (when, when))


EDITS: dict[str, Callable[[Project], None]] = {
    "data byte flipped": _flip,
    "data replaced": lambda project: _variant(project, "data.tfrecord"),
    "setting changed": _setting,
    "config reordered": lambda project: project.write_experiment(project.rng.shuffle),
    "module edited": lambda project: _module(project, "network"),
    "helper edited": lambda project: _module(project, "layers"),
    "comment only": _comment,
    "schema edited": lambda project: _variant(project, "schema.pbtxt"),
    "weights replaced": lambda project: _variant(project, "base.weights.h5"),
    "teacher replaced": lambda project: _variant(project, "teacher.keras"),
    "time stamp touched": _touch,
    "unrelated file edited": lambda project: _module(project, "unrelated"),
    "file added": _new_file,
}


def endure(root: Path, edits: int, seed: int) -> Tally:
    """So many edits, each followed by a look for the compiled pipeline; first of all TFX is imported."""
    project = Project(root, seed)
    kept, plans.KEPT = plans.KEPT, 10**6
    try:
        project.ask("nothing")
        for _ in range(edits):
            project.ask(project.edit())
    finally:
        plans.KEPT = kept
    return project.tally
