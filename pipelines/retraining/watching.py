"""What a server's own metrics say about a version that has just gone into service.

    before = sample("http://127.0.0.1:8501")
    ...
    fault(before, sample("http://127.0.0.1:8501"), watch)     # "" while all is well

Reads Prometheus' text format under TensorFlow Serving's metric names, so
TensorFlow Serving itself can be watched as well as the embedded server.
"""

from __future__ import annotations

import http.client
import urllib.request
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from pipelines.config import Experiment
from pipelines.retraining.settings import Watch

_COUNT = ":tensorflow:serving:request_count"
_LATENCY = ":tensorflow:serving:request_latency"
_PATH = "/monitoring/prometheus/metrics"
_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Sample:
    """Counts since the server began.

    Attributes:
        answered: requests that were answered well.
        failed: requests that ended in an error of the server's making.
        seconds: that answers took, in all.
    """

    answered: float = 0.0
    failed: float = 0.0
    seconds: float = 0.0

    def since(self, before: Sample) -> Sample:
        """What came in between; a server that was restarted begins at nothing."""
        if self.answered < before.answered or self.failed < before.failed:
            return self
        return Sample(
            self.answered - before.answered, self.failed - before.failed, self.seconds - before.seconds
        )

    @property
    def requests(self) -> float:
        return self.answered + self.failed


# Mistakes in a request are the caller's, whichever version serves.
_CALLERS_FAULTS = {"INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "CANCELLED", "OUT_OF_RANGE"}


def url_of(experiment: Experiment) -> str | None:
    """REST address of the server that is watched; None where none is named."""
    watch, server = experiment.retraining.watch, experiment.push.server
    return (watch.url if watch else None) or (server.rest_url if server else None)


def sample(url: str, model: str) -> Sample | None:
    """A model's counts; None where the server does not answer, or answers with something else."""
    try:
        with urllib.request.urlopen(url.rstrip("/") + _PATH, timeout=_TIMEOUT_S) as answer:
            return parse(answer.read().decode(), model)
    except (OSError, http.client.HTTPException, ValueError):
        return None


def parse(text: str, model: str) -> Sample:
    """A model's counts from a page in Prometheus' text format."""
    answered = failed = seconds = 0.0
    for family in text_string_to_metric_families(text):
        for item in family.samples:
            if item.labels.get("model_name") != model:
                continue
            status = item.labels.get("status", "")
            if item.name == _COUNT and status == "OK":
                answered += item.value
            elif item.name == _COUNT and status not in _CALLERS_FAULTS:
                failed += item.value
            elif item.name == f"{_LATENCY}_sum":
                seconds += item.value / 1e6
    return Sample(answered, failed, seconds)


def fault(start: Sample, now: Sample | None, watch: Watch) -> str:
    """What is wrong since `start`; empty for nothing, or where too little is known.

    Args:
        start: from when the version went into service.
        now: None where the server does not answer.
        watch: what is allowed.
    """
    if now is None:
        return ""  # a server that is down says nothing about the model; it is somebody's to mend
    since = now.since(start)
    if since.requests < watch.min_requests:
        return ""
    share = since.failed / since.requests
    if share > watch.max_error_rate:
        return (
            f"{share:.1%} of {since.requests:.0f} requests failed since it went into service; "
            f"at most {watch.max_error_rate:.1%}"
        )
    return _slower(start, since, watch)


def unseen(start: Sample, now: Sample | None, watch: Watch, url: str) -> str:
    """Why a watch that found no fault says little; empty where enough was seen.

    Args:
        start: from when the version went into service.
        now: None where the server does not answer.
        watch: what was wanted.
        url: of the server.
    """
    if now is None:
        return f"not watched: {url}{_PATH} cannot be read (headrace serve shows it with --enable_metrics)"
    requests = now.since(start).requests
    if requests < watch.min_requests:
        return f"only {requests:.0f} requests came while it was watched"
    return ""


def _slower(start: Sample, since: Sample, watch: Watch) -> str:
    if start.answered < watch.min_requests or since.answered < watch.min_requests:
        return ""
    before, after = start.seconds / start.answered, since.seconds / since.answered
    if before <= 0 or after / before <= watch.max_latency_ratio:
        return ""
    return (
        f"an answer takes {1e3 * after:.1f} ms, {after / before:.1f} times as long as before; "
        f"at most {watch.max_latency_ratio:g} times"
    )
