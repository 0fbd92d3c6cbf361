"""Submitting and scheduling, against a server that follows Kubeflow's API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from pipelines.errors import ConfigError, NodeFailedError, NotFoundError
from pipelines.runners.kfp_client import ClusterError, cluster, cron_of
from tests.pipelines.runners.kubeflow_server import Invalid, Kubeflow, read
from tests.pipelines.runners.test_spec_parts import GOOD

TEXT = yaml.safe_dump_all([GOOD, {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {}}}}}])


@pytest.fixture
def kubeflow() -> Iterator[Kubeflow]:
    server = Kubeflow()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch, tmp_path) -> None:
    import kfp

    monkeypatch.setattr(kfp.Client, "_LOCAL_KFP_CONTEXT", str(tmp_path / "context.json"))
    monkeypatch.delenv("KF_PIPELINES_ENDPOINT", raising=False)


def test_a_run_is_submitted_and_waited_for(kubeflow) -> None:
    told: list[str] = []
    with cluster(kubeflow.url) as client:
        run = client.submit(TEXT, "small 1", experiment="trying", parameters={"epochs": 3})
        client.wait(run.run_id, told.append, sleep=lambda seconds: None)
    assert told == ["PENDING", "RUNNING", "SUCCEEDED"]
    (sent,) = kubeflow.runs.values()
    assert sent["display_name"] == "small 1"
    assert sent["runtime_config"]["parameters"] == {"epochs": 3}
    assert kubeflow.experiments[sent["experiment_id"]]["display_name"] == "trying"
    assert run.link == f"{kubeflow.url}/#/runs/details/run-0"


@pytest.mark.parametrize("state", ["FAILED", "CANCELED", "SKIPPED"])
def test_a_run_that_does_not_succeed_is_an_error(state: str) -> None:
    server = Kubeflow(["RUNNING", state])
    with cluster(server.url) as client:
        run = client.submit(TEXT, "small", experiment="trying")
        with pytest.raises(NodeFailedError, match=state):
            client.wait(run.run_id, lambda told: None, sleep=lambda seconds: None)
    server.close()


def test_a_recurring_run_from_making_to_deleting(kubeflow) -> None:
    with cluster(kubeflow.url) as client:
        made = client.schedule(TEXT, "nightly", experiment="trying", cron="0 3 * * *")
        client.schedule(TEXT, "weekly", experiment="trying", cron="0 3 * * 1")
        assert [(item.name, item.cron, item.enabled) for item in client.recurring()] == [
            ("nightly", "0 0 3 * * *", True),
            ("weekly", "0 0 3 * * 1", True),
        ]
        client.pause(client.find("nightly"))
        assert not client.find(made.id).enabled
        client.resume(client.find("nightly"))
        assert client.find("nightly").enabled
        client.delete(client.find("nightly"))
        with pytest.raises(NotFoundError, match="nightly"):
            client.find("nightly")
    sent = kubeflow.recurring["recurring-1"]
    assert (sent["max_concurrency"], sent["no_catchup"], sent["mode"]) == ("1", True, "ENABLE") or (
        sent["max_concurrency"],
        sent["no_catchup"],
        sent["mode"],
    ) == (1, True, "ENABLE")


@pytest.mark.parametrize("text", ["often", "0 3 * *", "61 * * * *"])
def test_bad_cron(text: str) -> None:
    with pytest.raises(ConfigError, match="Expected minute"):
        cron_of(text)


def test_cron_with_seconds_stays() -> None:
    assert cron_of("30 0 9 ? * 2-6") == "30 0 9 ? * 2-6"


def test_nobody_there() -> None:
    with pytest.raises(ClusterError, match="cannot be reached") as caught, cluster("http://127.0.0.1:9"):
        pass
    assert caught.value.exit_code == 2
    assert "port-forward" in caught.value.remedy


def test_something_else_there(kubeflow) -> None:
    with pytest.raises(ClusterError, match="refused with 404"), cluster(f"{kubeflow.url}/elsewhere"):
        pass


def test_no_url() -> None:
    with pytest.raises(ConfigError, match="Expected a URL"), cluster("localhost:8080"):
        pass


@pytest.mark.parametrize(("status", "remedy"), [(401, "Log in"), (403, "namespace")])
def test_refused(kubeflow, status: int, remedy: str) -> None:
    with (
        pytest.raises(ClusterError, match=f"refused with {status}") as caught,
        cluster(kubeflow.url) as client,
    ):
        kubeflow.refuse_with = status
        client.submit(TEXT, "small", experiment="trying")
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"colour": 1}, "has no 'colour'"),
        ({"trigger": {"cron_schedule": {"croon": "x"}}}, "has no 'croon'"),
        ({"mode": "MAYBE"}, "no RecurringRunMode"),
    ],
)
def test_the_server_would_notice_a_wrong_body(body: Any, message: str) -> None:
    import kfp_server_api

    with pytest.raises(Invalid, match=message):
        read(kfp_server_api.V2beta1RecurringRun, body)
