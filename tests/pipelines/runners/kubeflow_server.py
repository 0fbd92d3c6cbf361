"""Kubeflow Pipelines' v2beta1 API over HTTP, as far as submitting and scheduling go.

Routes are those of the generated client; every body is read by its models, and
refused where it holds a key or an enum value that they do not know.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kfp_server_api
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from pipelines.runners import spec_load


class Invalid(Exception):
    """A body that the API's models do not take."""


def read(model: type, body: Any) -> Any:
    """A model from JSON; nested models are read too, unknown keys refused."""
    if not isinstance(body, dict):
        raise Invalid(f"{model.__name__} should be an object")
    known = {name: attribute for attribute, name in model.attribute_map.items()}
    values = {}
    for key, value in body.items():
        if key not in known:
            raise Invalid(f"{model.__name__} has no {key!r}")
        values[known[key]] = _value(model.openapi_types[known[key]], value)
    try:
        return model(**values)
    except ValueError as error:
        raise Invalid(str(error)) from error


def _value(kind: str, value: Any) -> Any:
    inner = getattr(kfp_server_api, kind, None)
    if inner is None or value is None:
        return value
    if not inner.attribute_map:  # an enum
        if value not in inner.allowable_values:
            raise Invalid(f"{value!r} is no {kind}")
        return value
    return read(inner, value)


def check_pipeline(spec: Any) -> None:
    """A run's pipeline: what the API server's own reader takes."""
    import yaml

    if set(spec) == {"pipeline_spec", "platform_spec"}:
        documents = [spec["pipeline_spec"], spec["platform_spec"]]
    else:
        documents = [spec]
    json_format.ParseDict(documents[0], pipeline_spec_pb2.PipelineSpec())
    spec_load.load(yaml.safe_dump_all(documents))


class Kubeflow:
    """A server on a free port; its state is public."""

    def __init__(self, states: list[str] | None = None) -> None:
        self.experiments: dict[str, Any] = {}
        self.runs: dict[str, Any] = {}
        self.recurring: dict[str, Any] = {}
        self.states = list(states or ["PENDING", "RUNNING", "SUCCEEDED"])
        self.refuse_with = 0
        handler = type("Handler", (_Handler,), {"kubeflow": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def health(self, body: Any, query: dict[str, list[str]]) -> Any:
        return {"multi_user": False}

    def list_experiments(self, body: Any, query: dict[str, list[str]]) -> Any:
        return {"experiments": list(self.experiments.values())}

    def create_experiment(self, body: Any, query: dict[str, list[str]]) -> Any:
        read(kfp_server_api.V2beta1Experiment, body)
        made = {**body, "experiment_id": f"experiment-{len(self.experiments)}"}
        self.experiments[made["experiment_id"]] = made
        return made

    def create_run(self, body: Any, query: dict[str, list[str]]) -> Any:
        run = read(kfp_server_api.V2beta1Run, body)
        check_pipeline(run.pipeline_spec)
        if run.experiment_id not in self.experiments:
            raise Invalid(f"there is no experiment {run.experiment_id!r}")
        made = {**body, "run_id": f"run-{len(self.runs)}", "state": "PENDING"}
        self.runs[made["run_id"]] = made
        return made

    def get_run(self, body: Any, query: dict[str, list[str]], name: str) -> Any:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {**self.runs[name], "state": state}

    def create_recurring(self, body: Any, query: dict[str, list[str]]) -> Any:
        run = read(kfp_server_api.V2beta1RecurringRun, body)
        check_pipeline(run.pipeline_spec)
        if len(run.trigger.cron_schedule.cron.split()) != 6:
            raise Invalid("a cron expression has six fields")
        made = {**body, "recurring_run_id": f"recurring-{len(self.recurring)}", "status": "ENABLED"}
        self.recurring[made["recurring_run_id"]] = made
        return made

    def list_recurring(self, body: Any, query: dict[str, list[str]]) -> Any:
        """A page has one, so that whoever lists must go on."""
        names = sorted(self.recurring)
        at = int(query.get("page_token", ["0"])[0] or 0)
        following = str(at + 1) if at + 1 < len(names) else ""
        page = [self.recurring[name] for name in names[at : at + 1]]
        return {"recurringRuns": page, "next_page_token": following}

    def disable(self, body: Any, query: dict[str, list[str]], name: str) -> Any:
        self.recurring[name]["status"] = "DISABLED"
        return {}

    def enable(self, body: Any, query: dict[str, list[str]], name: str) -> Any:
        self.recurring[name]["status"] = "ENABLED"
        return {}

    def delete(self, body: Any, query: dict[str, list[str]], name: str) -> Any:
        del self.recurring[name]
        return {}


ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("GET", r"/apis/v2beta1/healthz", Kubeflow.health),
    ("GET", r"/apis/v2beta1/experiments", Kubeflow.list_experiments),
    ("POST", r"/apis/v2beta1/experiments", Kubeflow.create_experiment),
    ("POST", r"/apis/v2beta1/runs", Kubeflow.create_run),
    ("GET", r"/apis/v2beta1/runs/([^/:]+)", Kubeflow.get_run),
    ("POST", r"/apis/v2beta1/recurringruns", Kubeflow.create_recurring),
    ("GET", r"/apis/v2beta1/recurringruns", Kubeflow.list_recurring),
    ("POST", r"/apis/v2beta1/recurringruns/([^/:]+):disable", Kubeflow.disable),
    ("POST", r"/apis/v2beta1/recurringruns/([^/:]+):enable", Kubeflow.enable),
    ("DELETE", r"/apis/v2beta1/recurringruns/([^/:]+)", Kubeflow.delete),
]


class _Handler(BaseHTTPRequestHandler):
    kubeflow: Kubeflow

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, answer = 404, {"error": f"no route {self.command} {parts.path}"}
        for method, pattern, act in ROUTES:
            match = re.fullmatch(pattern, parts.path)
            if method == self.command and match:
                status, answer = self._act(act, body, parse_qs(parts.query), match.groups())
        if self.kubeflow.refuse_with and not parts.path.endswith("healthz"):
            status, answer = self.kubeflow.refuse_with, {"error": "refused"}
        payload = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _act(self, act: Callable[..., Any], body: bytes, query: Any, names: Any) -> tuple[int, Any]:
        try:
            return 200, act(self.kubeflow, json.loads(body or b"null"), query, *names)
        except (Invalid, spec_load.SpecRefusedError, json_format.ParseError) as error:
            return 400, {"error": str(error)}
        except KeyError as error:
            return 404, {"error": f"there is no {error}"}

    do_GET = do_POST = do_DELETE = _answer

    def log_message(self, *arguments: Any) -> None:
        """Says nothing."""
