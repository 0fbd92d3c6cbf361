"""Short seeded samples of the endurance tests; `make endure` runs the long ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pipelines import digests
from tests.endure import edits, kills, plan_edits, state


def test_seeded_edits_give_no_stale_hit(tmp_path) -> None:
    """10 edits, each followed by a real run of four real nodes."""
    tally = edits.endure(tmp_path, edits=10, seed=11)
    assert tally.failed == []
    assert tally.stale == []
    assert tally.needless == []
    assert tally.cached > 10 and tally.executed > 4
    assert sum(tally.edits.values()) == 10


def test_seeded_edits_give_no_stale_plan(tmp_path) -> None:
    """20 edits of what a pipeline is compiled from, each followed by a look for the one that is kept."""
    tally = plan_edits.endure(tmp_path, edits=20, seed=4)
    assert tally.stale == []
    assert tally.needless == []
    assert tally.cached > 5 and tally.executed > 5


@pytest.mark.parametrize("blind_to", ["data.tfrecord", "teacher.keras"])
def test_a_key_that_does_not_see_a_file_is_found_out(tmp_path, monkeypatch, blind_to) -> None:
    of_files = digests.of_files

    def blind(paths: list[Path]) -> list[str]:
        return ["" if path.name == blind_to else of_files([path])[0] for path in paths]

    def seen(*arguments: Any, **options: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(digests, "of_files", of_files)
            return compiling(*arguments, **options)

    compiling = plan_edits.compiling.compile_template
    monkeypatch.setattr(plan_edits.compiling, "compile_template", seen)
    monkeypatch.setattr(digests, "of_files", blind)
    project = plan_edits.Project(tmp_path, 1)
    project.ask("nothing")
    plan_edits._replace(project, blind_to, b"another")
    project.ask("replaced")
    assert project.tally.stale == ["replaced"]


def test_moments_are_drawn_by_the_seed() -> None:
    seconds = dict.fromkeys(kills.NODES, 2.0)
    drawn = [[kills.Moment.draw(random.Random(seed), seconds) for _ in range(3)] for seed in (5, 5, 6)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.e2e
def test_the_chain_survives_seeded_kills(headrace, tmp_path) -> None:
    """The program, a node and the model server are killed; each time the run is resumed."""
    rng = random.Random(2)
    undisturbed = kills.Chain(headrace, tmp_path / "undisturbed")
    undisturbed.run([])
    assert undisturbed.check() == []
    run_id = state.runs(undisturbed.workspace)[0].run_id
    reference = state.weights(undisturbed.workspace, run_id)
    chain = kills.Chain(headrace, tmp_path / "killed", reference)
    chain.run(
        [
            kills.Moment("program", "ExampleGen", rng.uniform(0, 0.3)),
            # Nothing else runs beside Transform, so it is surely there to be killed.
            kills.Moment("node", "Transform", rng.uniform(0, 2)),
            kills.Moment("program", "Trainer", rng.uniform(2, 5)),
            kills.Moment("server", "InfraValidator", 0.0),
            kills.Moment("program", "Pusher", rng.uniform(0, 0.5)),
        ]
    )
    assert chain.check() == []
    assert chain.collect(rng) == []
    # The last may come too late, and so may a training's end come before its kill.
    assert {moment.node for moment in chain.killed} >= {"ExampleGen", "Transform", "InfraValidator"}
