"""What of a scheduler is to be seen, and that looking leaves nothing behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pipelines.cli.main import cli
from pipelines.lineage.store import Store
from pipelines.retraining.presence import Presence
from tests.pipelines.retraining.chains import FakeChain


def files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_looking_leaves_nothing_behind(make, workspace) -> None:
    scheduler = make(FakeChain(), "trips.csv", every="0 3 * * *")
    before = files(workspace.root)
    assert scheduler.look().action == "wait"
    assert files(workspace.root) == before
    # A tick that comes before anybody has set retraining up is nobody's, whoever looked.
    make.clock.sleep(86_400.0)
    assert scheduler.once().decision.action == "wait"
    make.clock.sleep(86_400.0)
    assert scheduler.once().decision.action == "run"


def test_the_status_of_what_was_never_begun_begins_nothing(workspace, tmp_path, capsys) -> None:
    file = tmp_path / "trips.yaml"
    file.write_text(f"data: {{path: {tmp_path}/x.csv}}\nmodel: {{family: tabular}}\n")
    with Store(workspace.database):
        pass
    arguments = ["retrain", "status", str(file), "--workspace", str(workspace.root)]
    cli.main(args=arguments, prog_name="headrace", standalone_mode=False)
    assert "looked" in capsys.readouterr().out
    assert not (workspace.root / "retraining").exists()


def test_a_reset_before_the_beginning_is_no_beginning(make, tmp_path) -> None:
    (tmp_path / "data-5.csv").write_text("a,label\n1,x\n")
    scheduler = make(FakeChain(present=[(5, 0)]))
    scheduler.ledger.reset(make.clock.now)
    # Spans that lie before the window now are old, and not late.
    assert [scheduler.once().decision.action for _ in range(2)] == ["run", "wait"]


def test_a_waiting_scheduler_is_seen(make) -> None:
    scheduler = make(FakeChain())
    presence = scheduler.ledger.presence
    scheduler.once()
    assert presence.last_look() == make.clock.now
    assert presence.who_waits() == ""
    seen: list[str] = []

    def sleep(seconds: float) -> None:
        seen.append(presence.who_waits())
        make.clock.sleep(seconds)

    object.__setattr__(scheduler, "sleep", sleep)
    scheduler._wait(make.clock.now + 12.0)
    assert len(seen) == 3
    assert all(f"process {os.getpid()} on " in who for who in seen)
    assert presence.who_waits() == ""


def test_one_that_was_killed_or_is_silent_does_not_wait(tmp_path) -> None:
    presence = Presence(tmp_path)
    with presence.waiting():
        assert presence.who_waits(lambda: time.time() + 3600.0) == ""
        path = tmp_path / "waiting.json"
        dead = os.fork()
        if not dead:
            os._exit(0)
        os.waitpid(dead, 0)
        path.write_text(path.read_text().replace(str(os.getpid()), str(dead)))
        assert presence.who_waits() == ""
    assert path.exists()  # another's by now
