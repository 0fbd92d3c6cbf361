"""Kills `headrace gc` at seeded moments, and looks whether anything is half removed."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from pipelines import digests
from pipelines.lineage.database import Database
from pipelines.lineage.messages import values_of
from pipelines.lineage.store import Store
from pipelines.runners import payloads
from tests.conftest import Done, WarmCommands
from tests.endure import processes, state

GARBAGE_RUNS = 3
COLLECT = ("gc", "--keep-runs=1", "--keep-days=0")


def make_garbage(headrace: WarmCommands, workspace: Path, rng: random.Random) -> list[str]:
    """Runs that are replaced by later ones; what went wrong."""
    wrong = []
    for share in rng.sample(range(10, 100), GARBAGE_RUNS):
        split = f"--set=data.splits.train={share}"
        done = headrace("run", "digits", "--to=ExampleGen", split, f"--workspace={workspace}")
        if done.code:
            wrong.append(f"a run to be removed ended with {done.code}: {done.err[-400:]}")
    return wrong


def kill_gc(headrace: WarmCommands, workspace: Path, after_s: float) -> tuple[bool, Done]:
    """Starts gc and kills it after so many seconds; whether it was still there, and its end."""
    hit: list[bool] = []

    def disturb(pid: int) -> None:
        until = time.monotonic() + after_s
        while time.monotonic() < until and processes.kill_possible(pid):
            time.sleep(0.001)
        hit.append(processes.kill_possible(pid) and processes.kill(pid))

    done = headrace(*COLLECT, f"--workspace={workspace}", meanwhile=disturb)
    return hit[0] and done.code == -signal.SIGKILL, done


def faults(headrace: WarmCommands, workspace: Path) -> list[str]:
    """What is wrong after a killed gc, before and after another that nobody disturbs."""
    wrong = _half_removed(workspace)
    done = headrace(*COLLECT, f"--workspace={workspace}")
    if done.code:
        wrong.append(f"gc after a killed one ended with {done.code}: {done.err[-400:]}")
    wrong += _half_removed(workspace)
    wrong += [f"execution {number} counts as running" for number in state.active_executions(workspace)]
    trash = workspace / ".trash"
    wrong += [f"{path} is left in the trash" for path in (trash.iterdir() if trash.exists() else ())]
    again = headrace(*COLLECT, "--dry-run", "--output=json", f"--workspace={workspace}")
    if again.out.strip() != "[]":
        wrong.append(f"a second gc still finds {again.out[:400]}")
    return wrong


def _half_removed(workspace: Path) -> list[str]:
    """Payloads that are there and not what was published."""
    with Store(Database(workspace / "metadata.db")) as store:
        found = {Path(item.uri): values_of(item.custom_properties) for item in store._store.get_artifacts()}
    return [
        f"{path} is not what was published"
        for path, values in found.items()
        if payloads.PROPERTY in values
        and path.is_dir()
        and digests.of_tree(path) != values[payloads.PROPERTY]
    ]
