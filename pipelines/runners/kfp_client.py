"""Kubeflow Pipelines' API, through its own client: runs and recurring runs.

    with cluster(endpoint) as kubeflow:
        run = kubeflow.submit(text, name, experiment="digits")
        kubeflow.wait(run.run_id, told=print)

Authentication is the client's own: its environment variables, its context
file, or the cluster's tokens when it runs in one.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError, HeadraceError, NodeFailedError, NotFoundError

ENDED = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")
"""States of a run that will not change any more. (The client's own wait does not know the last.)"""

_PAGE = 100
_TIMEOUT_S = 10.0


class ClusterError(HeadraceError):
    """Kubeflow Pipelines cannot be reached, or refuses what it is asked."""


@dataclass(frozen=True)
class Submitted:
    """A run that Kubeflow has taken.

    Attributes:
        run_id: Kubeflow's.
        name: as its page shows it.
        link: to that page.
    """

    run_id: str
    name: str
    link: str


@dataclass(frozen=True)
class Recurring:
    """A recurring run.

    Attributes:
        id: Kubeflow's.
        name: as its page shows it.
        cron: with seconds first, as Kubeflow writes it.
        enabled: whether it is not paused.
    """

    id: str
    name: str
    cron: str
    enabled: bool


def cron_of(text: str) -> str:
    """Kubeflow's six fields from the usual five; six are taken as they are.

    Raises:
        ConfigError: it is no cron expression.
    """
    from datetime import UTC, datetime

    from cronsim import CronSim, CronSimError

    fields = text.split()
    usual = fields[1:] if len(fields) == 6 else fields
    try:
        CronSim(" ".join(usual).replace("?", "*"), datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ConfigError(
            f"Expected minute, hour, day, month, weekday. Received: --cron {text!r}",
            place="--cron",
            remedy='For example --cron "0 3 * * *": every night at three, UTC.',
        ) from error
    return " ".join([fields[0] if len(fields) == 6 else "0", *usual])


@contextlib.contextmanager
def cluster(endpoint: str, namespace: str | None = None) -> Iterator[Cluster]:
    """Kubeflow Pipelines at a URL; its errors become ours.

    Raises:
        ClusterError: nothing answers there, it is not Kubeflow, or it refuses.
    """
    import kfp_server_api

    try:
        yield _connect(endpoint, namespace)
    except kfp_server_api.ApiException as error:
        answer = _Answer(int(error.status or 0), str(error.body or error.reason or ""))
        raise _refused(endpoint, answer) from error


@dataclass(frozen=True)
class _Answer:
    status: int
    text: str


def _refused(endpoint: str, answer: _Answer) -> ClusterError:
    remedy = {
        401: "Log in: the client takes a cookie or token from ~/.config/kfp/context.json or KF_PIPELINES_*.",
        403: "This account may not do that in the namespace (--namespace).",
        404: "There is no Kubeflow Pipelines 2 API below that URL, or no such thing in it.",
    }.get(answer.status, "")
    text = answer.text.strip().replace("\n", " ")[:300]
    return ClusterError(
        f"Kubeflow Pipelines refused with {answer.status}: {text}", place=endpoint, remedy=remedy
    )


def _connect(endpoint: str, namespace: str | None) -> Cluster:
    import kfp

    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            f"Expected a URL. Received: --endpoint {endpoint!r}",
            place="--endpoint",
            remedy="Begin it with http:// or https://.",
        )
    _check_reachable(endpoint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        # Its default namespace is a service's, not a user's.
        client = kfp.Client(host=endpoint, namespace=namespace or "kubeflow")
    return Cluster(client, endpoint, namespace)


def _check_reachable(endpoint: str) -> None:
    """Asks once: the client itself would ask five times, five seconds apart."""
    url = f"{endpoint.rstrip('/')}/apis/v2beta1/healthz"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise _refused(endpoint, _Answer(404, error.reason)) from error
        # Any other refusal is the client's to deal with: it knows who is asking.
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"Kubeflow Pipelines cannot be reached: {getattr(error, 'reason', error)}",
            place=endpoint,
            remedy="Check --endpoint; from outside the cluster, "
            "kubectl port-forward -n kubeflow svc/ml-pipeline-ui 8080:80 makes it http://localhost:8080.",
        ) from error


class Cluster:
    """What we ask of Kubeflow Pipelines."""

    def __init__(self, client: Any, endpoint: str, namespace: str | None) -> None:
        self._client = client
        self._endpoint = endpoint.rstrip("/")
        self._namespace = namespace

    def submit(
        self, text: str, name: str, *, experiment: str, parameters: Mapping[str, Any] | None = None
    ) -> Submitted:
        """Starts a run of a compiled pipeline."""
        with _as_file(text) as path:
            run = self._client.run_pipeline(
                experiment_id=self._experiment(experiment),
                job_name=name,
                pipeline_package_path=path,
                params=dict(parameters or {}),
            )
        return Submitted(run.run_id, name, f"{self._endpoint}/#/runs/details/{run.run_id}")

    def _experiment(self, name: str) -> str:
        found = self._client.create_experiment(name=name, namespace=self._namespace)
        return str(found.experiment_id)

    def wait(
        self,
        run_id: str,
        told: Callable[[str], None],
        *,
        poll_s: float = 5.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> str:
        """Waits until a run has ended; tells each new state, and returns the last.

        Raises:
            NodeFailedError: it did not succeed.
        """
        last = ""
        while True:
            run = self._client.get_run(run_id=run_id)
            state = str(run.state or "PENDING").upper()
            if state != last:
                told(state)
                last = state
            if state == "SUCCEEDED":
                return state
            if state in ENDED:
                message = getattr(run.error, "message", None) or ""
                raise NodeFailedError(
                    f"The run ended as {state}{': ' if message else ''}{message}",
                    place=f"{self._endpoint}/#/runs/details/{run_id}",
                    remedy="Its page has the log of the node that failed.",
                )
            sleep(poll_s)

    def schedule(self, text: str, name: str, *, experiment: str, cron: str) -> Recurring:
        """Makes a recurring run of a compiled pipeline."""
        with _as_file(text) as path:
            made = self._client.create_recurring_run(
                experiment_id=self._experiment(experiment),
                job_name=name,
                cron_expression=cron_of(cron),
                pipeline_package_path=path,
                # Spans that were missed are in the window of the next run.
                no_catchup=True,
                max_concurrency=1,
            )
        return _recurring(made)

    def recurring(self) -> list[Recurring]:
        """All recurring runs, by name."""
        found: list[Recurring] = []
        token = ""
        while True:
            page = self._client.list_recurring_runs(
                page_token=token, page_size=_PAGE, namespace=self._namespace
            )
            found += [_recurring(item) for item in page.recurring_runs or []]
            token = page.next_page_token or ""
            if not token:
                return sorted(found, key=lambda item: item.name)

    def find(self, name: str) -> Recurring:
        """A recurring run by its id or name.

        Raises:
            NotFoundError: none or several have that name.
        """
        found = [item for item in self.recurring() if name in (item.id, item.name)]
        if len(found) != 1:
            several = ", ".join(item.id for item in found)
            raise NotFoundError(
                f"{'Several recurring runs are' if found else 'No recurring run is'} called {name!r}",
                place=self._endpoint,
                remedy=f"Name one by its id: {several}."
                if found
                else "headrace schedule kfp --list shows all.",
            )
        return found[0]

    def pause(self, item: Recurring) -> None:
        self._client.disable_recurring_run(item.id)

    def resume(self, item: Recurring) -> None:
        self._client.enable_recurring_run(item.id)

    def delete(self, item: Recurring) -> None:
        self._client.delete_recurring_run(item.id)


def _recurring(item: Any) -> Recurring:
    schedule = item.trigger.cron_schedule if item.trigger else None
    enabled = str(item.status or item.mode or "").upper() in ("ENABLED", "ENABLE")
    return Recurring(
        str(item.recurring_run_id), str(item.display_name), str(schedule.cron if schedule else ""), enabled
    )


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """The client reads packages from files; it prints links, which are ours to print."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        path.write_text(text, encoding="utf-8")
        with contextlib.redirect_stdout(None):
            yield str(path)
