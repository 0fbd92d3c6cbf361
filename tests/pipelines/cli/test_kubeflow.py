"""Compiling, submitting and scheduling from the command line."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.runners.kubeflow_server import Kubeflow
from tests.waiting import wait_until

CLUSTER = (
    "--set=kubeflow.image=registry.example.com/headrace:1",
    "--set=kubeflow.volume.claim=headrace",
)


@pytest.fixture(scope="module")
def kubeflow() -> Iterator[Kubeflow]:
    server = Kubeflow(["PENDING", "SUCCEEDED"])
    yield server
    server.close()


def test_submitting_and_waiting(headrace, kubeflow) -> None:
    done = headrace("submit", "digits", "--endpoint", kubeflow.url, "--wait", *CLUSTER)
    assert done.code == 0, done.err
    assert "State       succeeded" in done.out
    (run,) = kubeflow.runs.values()
    assert kubeflow.experiments[run["experiment_id"]]["display_name"] == "digits"


def test_a_recurring_run(headrace, kubeflow) -> None:
    endpoint = ("--endpoint", kubeflow.url)
    done = headrace("schedule", "kfp", "digits", "--cron", "0 3 * * *", *endpoint, *CLUSTER)
    assert done.code == 0, done.err
    assert headrace("schedule", "kfp", "--pause", "digits", *endpoint).code == 0
    assert "paused" in headrace("schedule", "kfp", "--list", *endpoint).out
    assert headrace("schedule", "kfp", "--delete", "digits", *endpoint).code == 0
    assert not kubeflow.recurring


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("submit", "digits", "--endpoint", "http://127.0.0.1:9", *CLUSTER), "cannot be reached"),
        (("submit", "digits", *CLUSTER), "--endpoint"),
        (("compile", "digits", "-o", "x.yaml"), "needs to know the image"),
        (
            ("compile", "digits", "-o", "x.yaml", *CLUSTER, "--set=data={path: cats/}"),
            "cannot see the local path",
        ),
        (("compile", "digits", "-o", "none/x.yaml", *CLUSTER), "folder does not exist"),
        (("schedule", "kfp", "digits", "--endpoint", "http://127.0.0.1:9"), "needs to know when"),
        (("schedule", "kfp", "--endpoint", "http://127.0.0.1:9"), "Expected one of"),
        (("schedule", "kfp", "digits", "--cron", "x", "--endpoint", "http://127.0.0.1:9"), "Expected minute"),
        (("run-spec", "none.yaml"), "no such pipeline file"),
        (("run", "digits", "--runner", "spec", "--to", "Trainer"), "runs as a whole"),
    ],
)
def test_mistakes_are_said_before_anything_is_submitted(headrace, tmp_path, arguments, message) -> None:
    done = headrace(*arguments, cwd=tmp_path)
    assert done.code == 2
    assert message in done.err, done.err
    assert not (tmp_path / "x.yaml").exists()


def test_a_pipeline_file_is_run(headrace, tmp_path: Path) -> None:
    from tests.pipelines.runners import pipelines_for_spec as small
    from tests.pipelines.runners.test_spec import chain

    small.compiled(chain, tmp_path)
    command = ("run-spec", "pipeline.yaml", "--root", "here", "--parameter", "text=xyz")
    done = headrace(*command, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "3 executed, 0 cached" in done.out
    assert "0 executed, 3 cached" in headrace(*command, cwd=tmp_path).out
    watched = headrace(*command, "--log-format", "json", cwd=tmp_path)
    told = [json.loads(line) for line in watched.err.splitlines()]
    assert (watched.out, told[0]["event"], told[-1]["event"]) == ("", "run.begun", "run.ended")
    assert (told[-1]["state"], len(told[-1]["cached"]), told[-1]["executed"]) == ("complete", 3, [])
    assert len({line["run"] for line in told}) == 1
    spoilt = (tmp_path / "pipeline.yaml").read_text().replace("2.1.0", "2.0.0")
    (tmp_path / "pipeline.yaml").write_text(spoilt)
    refused = headrace(*command, cwd=tmp_path)
    assert refused.code == 2
    assert "would refuse this pipeline" in refused.err


def test_an_interrupted_run_leaves_no_container_behind(headrace, tmp_path: Path) -> None:
    import yaml

    from tests.pipelines.runners.test_spec_parts import GOOD

    code = "import os, pathlib, time; pathlib.Path(r'{}').write_text(str(os.getpid())); time.sleep(600)"
    spec = yaml.safe_load(yaml.safe_dump(GOOD))
    place = tmp_path / "pid"
    spec["deploymentSpec"]["executors"]["exec-one"]["container"]["command"] = [
        *("python", "-c", code.format(place)),
    ]
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(spec))

    def interrupt(pid: int) -> None:
        wait_until(lambda: place.exists() and place.read_text() != "")
        os.kill(pid, signal.SIGTERM)

    done = headrace("run-spec", "long.yaml", "--root", "here", cwd=tmp_path, meanwhile=interrupt)
    assert done.code == 1
    assert "Interrupted" in done.err
    assert not Path(f"/proc/{place.read_text()}").exists()
