"""Edits a project by seeded chance, runs it after each, and counts stale hits and needless re-runs.

    python -m tests.endure.edits --edits 500 --seed 1

Each run is one of the real runner in a process of its own, after a real look
into the cache; outputs are read from disk and compared with what they should
be by hand. Then what a pipeline is compiled from is edited; see `plan_edits`.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines import fingerprint
from pipelines.lineage.database import Database
from pipelines.lineage.records import NodeRecord
from pipelines.lineage.store import Store
from tests.endure import chain, plan_edits
from tests.endure.chain import CODE, INPUTS, State
from tests.endure.tally import Tally


class Project:
    """A project under edit, and what its cache should hold."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.workspace = root / "project", root / "workspace"
        self.rng, self.state, self.tally = random.Random(seed), State(), Tally()
        self._known: dict[tuple[Any, ...], list[Path]] = {}
        self._damaged: set[Path] = set()
        self._latest: dict[str, Path] = {}
        self._runs = 0
        # Once, whatever is installed meanwhile.
        self.packages = dict(fingerprint.environment())
        (self.workspace / "runs").mkdir(parents=True)
        chain.write(self.root, self.state)

    def edit(self) -> str:
        """Makes one edit; returns its kind."""
        kind = self.rng.choice(list(EDITS))
        EDITS[kind](self)
        self.tally.edits[kind] += 1
        return kind

    def module(self, name: str) -> Path:
        return self.root / "chain" / f"{name}.py"

    def output(self) -> Path:
        """The output file of some node's latest execution, where it is sound."""
        sound = [path for path in self._latest.values() if path not in self._damaged]
        path = self.rng.choice(sorted(sound))
        return path / "text"

    def damage(self, path: Path) -> None:
        self._damaged.add(path)

    def run(self, what: str) -> None:
        """Runs the chain and judges what it took from the cache."""
        self._runs += 1
        run_id = f"run-{self._runs}"
        if _forked(lambda: _run(self, run_id)):
            self.tally.failed.append(f"{run_id}, after {what}")
            return
        with Store(Database(self.workspace / "metadata.db")) as store:
            found = {node.node: node for node in store.nodes(run_id)}
        expected = self.state.outputs()
        made: dict[str, Path] = {}
        for name in CODE:
            made[name] = self._judge(name, found[name], expected[name], made, f"{run_id} after {what}")
        self._latest = made

    def _judge(self, name: str, node: NodeRecord, expected: str, made: dict[str, Path], what: str) -> Path:
        path = Path(node.outputs["out"][0].uri)
        key = (*self.state.told(name), *(made[source] for source in INPUTS[name]))
        sound = [item for item in self._known.get(key, []) if item not in self._damaged]
        if node.state == "cached":
            self.tally.cached += 1
            if path not in sound or (path / "text").read_text() != expected:
                self.tally.stale.append(f"{what}: {name}")
        else:
            self.tally.executed += 1
            self._known.setdefault(key, []).append(path)
            if sound:
                self.tally.needless.append(f"{what}: {name}")
            if (path / "text").read_text() != expected:
                self.tally.stale.append(f"{what}: {name} was run with old code")
        return path


def _bump(project: Project, name: str) -> None:
    """Another value in a module, which changes what the nodes that run it write."""
    project.state.values[name] += 1
    path = project.module(name)
    constant = name.upper()
    text = re.sub(
        rf"^{constant} = \d+", f"{constant} = {project.state.values[name]}", path.read_text(), flags=re.M
    )
    path.write_text(text)


def _helper(project: Project) -> None:
    _bump(project, project.rng.choice(["near", "deep", "far"]))


def _node(project: Project) -> None:
    _bump(project, project.rng.choice(["read", "count", "join", "alone"]))


def _unrelated(project: Project) -> None:
    _bump(project, "unrelated")


def _new_file(project: Project) -> None:
    (project.root / "chain" / f"more_{project.rng.randrange(10**6)}.py").write_text("X = 1\n")


def _comment(project: Project) -> None:
    path = project.module(project.rng.choice(list(chain.MODULES)))
    path.write_text(f"# {project.rng.random()}\n{path.read_text()}")


def _flip(project: Project) -> None:
    """One byte of the data by another; the file's time stamp is put back, as some tools do."""
    data = bytearray(project.state.data)
    data[project.rng.randrange(len(data))] ^= 1 << project.rng.randrange(7)
    project.state.data = bytes(data)
    path = project.root / project.state.data_name
    stat = path.stat()
    path.write_bytes(project.state.data)
    if project.rng.random() < 0.5:
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _rename(project: Project) -> None:
    old = project.root / project.state.data_name
    project.state.data_name = f"data-{project.rng.randrange(10**6)}"
    old.rename(project.root / project.state.data_name)


def _delete(project: Project) -> None:
    path = project.output()
    path.unlink()
    project.damage(path.parent)


def _truncate(project: Project) -> None:
    path = project.output()
    os.truncate(path, path.stat().st_size - 1)
    project.damage(path.parent)


def _alter(project: Project) -> None:
    """One byte of an output by another, with the time stamp put back."""
    path = project.output()
    stat, data = path.stat(), bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    project.damage(path.parent)


def _version(project: Project) -> None:
    project.state.version = f"1.{project.rng.randrange(10**6)}"


def _reorder(project: Project) -> None:
    items = list(project.state.config.items())
    project.rng.shuffle(items)
    project.state.config = dict(items)


def _setting(project: Project) -> None:
    if project.rng.random() < 0.5:
        project.state.factor += 1
    else:
        project.state.config["a"] += 1


def _touch(project: Project) -> None:
    choices = [project.root / project.state.data_name, *project.root.glob("chain/*.py"), project.output()]
    path = project.rng.choice(sorted(choices))
    when = time.time() + project.rng.randrange(-(10**6), 10**6)
    os.utime(path, (when, when))


EDITS: dict[str, Callable[[Project], None]] = {
    "helper edited": _helper,
    "node edited": _node,
    "unrelated file edited": _unrelated,
    "file added": _new_file,
    "comment only": _comment,
    "data byte flipped": _flip,
    "data renamed": _rename,
    "output deleted": _delete,
    "output truncated": _truncate,
    "output altered": _alter,
    "version changed": _version,
    "config reordered": _reorder,
    "setting changed": _setting,
    "time stamp touched": _touch,
}


def _forked(work: Callable[[], None]) -> int:
    """Runs `work` in a child, so that it imports the project as it is now; its exit status."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def _run(project: Project, run_id: str) -> None:
    from tfx.dsl.compiler import compiler, constants
    from tfx.orchestration.portable import runtime_parameter_utils

    from pipelines import digests
    from pipelines.runners import cached
    from pipelines.runners.files import RunFiles
    from pipelines.runners.local import LocalRunner

    os.chdir(project.root)
    sys.path.insert(0, str(project.root))
    # Bytecode is taken for its source's by seconds and size, and edits here are quicker.
    sys.dont_write_bytecode = True
    digests.remember_in(project.workspace)
    versions = {**project.packages, "numpy": project.state.version}
    fingerprint.environment = lambda: versions  # type: ignore[assignment]
    ir = compiler.Compiler().compile(chain.pipeline(project.root, project.workspace, project.state))
    runtime_parameter_utils.substitute_runtime_parameter(
        ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id}
    )
    folder = project.workspace / "runs" / run_id
    folder.mkdir()
    files = RunFiles(folder, Database(project.workspace / "metadata.db"))
    finished = cached.take(ir, files, (), lambda: None)
    assert LocalRunner(files, lambda: None).run_with_ir(ir, finished=finished)


def endure(root: Path, edits: int, seed: int, say: Callable[[str], None] = lambda text: None) -> Tally:
    """So many edits, each followed by a run."""
    import tfx.v1  # noqa: F401

    import pipelines.runners.local  # noqa: F401

    project = Project(root, seed)
    project.run("nothing")
    for number in range(edits):
        kind = project.edit()
        project.run(kind)
        if (number + 1) % 50 == 0:
            say(f"{number + 1} edits: {project.tally.sentence()}")
    return project.tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--plans", type=int, default=1000, help="edits of what pipelines are compiled from")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)  # two of TFX's in each run
    with tempfile.TemporaryDirectory(prefix="edits-") as scratch:
        tally = endure(Path(scratch), options.edits, options.seed, lambda text: print(text, flush=True))
    _print("outputs", tally)
    with tempfile.TemporaryDirectory(prefix="edits-") as scratch:
        kept = plan_edits.endure(Path(scratch), options.plans, options.seed)
    _print("compiled pipelines", kept)
    return 0 if tally.holds and kept.holds else 1


def _print(what: str, tally: Tally) -> None:
    for kind, count in sorted(tally.edits.items()):
        print(f"{count:5} {kind}")
    print(f"{what}: {tally.sentence()}", flush=True)
    for text in [*tally.stale, *tally.needless[:20], *tally.failed[:20]]:
        print(text)


if __name__ == "__main__":
    sys.exit(main())
