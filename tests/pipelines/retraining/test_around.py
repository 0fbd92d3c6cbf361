"""What a round stands on: notifications, a server's metrics, outcomes, commands."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from components.serving.server.metrics import Metrics
from pipelines import config
from pipelines.cli.main import cli
from pipelines.errors import ConfigError, HeadraceError, InputError, InterruptedRunError
from pipelines.retraining import assembly, feedback, observe, watching
from pipelines.retraining.ledger import Record
from pipelines.retraining.notify import Notifier
from pipelines.retraining.part_names import part_name
from pipelines.retraining.settings import Notifications, Watch
from pipelines.retraining.watching import Sample
from pipelines.workspace import Workspace

RECORD = Record(
    "span-4v0", "new: span 4", 100.0, outcome="promoted", detail="version 3 is in service", version=3
)


class Hook(BaseHTTPRequestHandler):
    received: list[dict[str, object]] = []
    answers: list[int] = []

    def do_POST(self) -> None:
        self.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.answers.pop(0) if self.answers else 200)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        return None


@pytest.fixture
def hook(monkeypatch) -> Iterator[type[Hook]]:
    Hook.received, Hook.answers = [], []
    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("RETRAIN_HOOK", f"http://127.0.0.1:{server.server_port}/a-secret-path")
    yield Hook
    server.shutdown()
    thread.join()
    server.server_close()


def notifier(slept: list[float], log: list[str], **settings: object) -> Notifier:
    chosen = Notifications.model_validate(settings)
    return Notifier(chosen, "trips", clock=lambda: 7.0, sleep=slept.append, log=log.append)


def test_a_webhook_gets_text_and_facts(hook) -> None:
    notifier([], [], webhook_env="RETRAIN_HOOK")("promotion", RECORD)
    (message,) = hook.received
    assert message["text"] == "Headrace: trips promoted (version 3): version 3 is in service"
    assert (message["event"], message["round"], message["at"]) == ("promotion", "span-4v0", 7.0)


def test_delivery_is_tried_again_and_never_raises(hook) -> None:
    slept: list[float] = []
    log: list[str] = []
    hook.answers = [500, 503]
    notifier(slept, log, webhook_env="RETRAIN_HOOK")("failure", RECORD)
    assert (len(hook.received), slept) == (3, [2.0, 4.0])
    hook.answers = [500] * 9
    notifier(slept, log, webhook_env="RETRAIN_HOOK")("failure", RECORD)
    assert len(hook.received) == 6
    assert not any("secret" in line for line in log)
    assert log[0] == "notification by webhook, attempt 1: answered 500"


def test_only_chosen_events_are_told(hook) -> None:
    notifier([], [], webhook_env="RETRAIN_HOOK", events=["rollback"])("promotion", RECORD)
    assert hook.received == []


def test_a_command_reads_the_same_message(tmp_path) -> None:
    target = tmp_path / "message.json"
    command = [sys.executable, "-c", f"import sys; open({str(target)!r}, 'w').write(sys.stdin.read())"]
    notifier([], [], command=command)("refusal", RECORD)
    assert json.loads(target.read_text())["event"] == "refusal"
    log: list[str] = []
    notifier([], log, command=["/no/such/program"], attempts=1)("refusal", RECORD)
    assert log == ["notification by command, attempt 1: /no/such/program: FileNotFoundError"]


class Garbled(BaseHTTPRequestHandler):
    """Answers with what is no HTTP, or no page of metrics."""

    body = b""

    def do_GET(self) -> None:
        self.wfile.write(self.body)

    do_POST = do_GET

    def log_message(self, *arguments: object) -> None:
        return None


@pytest.mark.parametrize(
    "body",
    [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.0 200 OK\r\n\r\n<p>{x}</p>\n", b"HTTP/1.0 200 OK\r\n\r\n\xff\n"],
)
def test_a_server_that_answers_something_else_ends_no_round(monkeypatch, body) -> None:
    monkeypatch.setattr(Garbled, "body", body)
    server = HTTPServer(("127.0.0.1", 0), Garbled)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        assert watching.sample(url, "m") is None
        monkeypatch.setenv("RETRAIN_HOOK", url)
        notifier([], [], webhook_env="RETRAIN_HOOK")("failure", RECORD)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/a secret", "http://host:secret/", "http://[secret"])
def test_an_address_that_cannot_be_used_is_not_repeated(monkeypatch, url) -> None:
    monkeypatch.setenv("RETRAIN_HOOK", url)
    log: list[str] = []
    notifier([], log, webhook_env="RETRAIN_HOOK")("failure", RECORD)
    assert len(log) == 3
    assert "secret" not in "".join(log)


def test_an_interruption_while_drift_is_measured_is_one(workspace, monkeypatch) -> None:
    errors = iter([InterruptedRunError("The run was interrupted"), InputError("bad"), InputError("bad")])

    def fail(*arguments: object) -> None:
        raise next(errors)

    monkeypatch.setattr(observe, "run", fail)
    output: Any = SimpleNamespace(run=SimpleNamespace(run_id="r"), output=lambda node, key: "artifact")

    def look(**settings: bool) -> object:
        raw = {"name": "trips", "data": {"path": "x-{SPAN}.csv"}, "model": {"family": "tabular"}}
        experiment = config.from_mapping({**raw, "retraining": {"on_drift": True, **settings}})
        return observe.SpanDrift(experiment, workspace, lambda: None)((4, 0), output)  # type: ignore[arg-type, return-value]

    with pytest.raises(InterruptedRunError):
        look()
    assert look(on_new_span=True) is None
    # Nothing else would ever name bad data.
    assert look() == ["it cannot be looked at: bad"]


def test_an_address_that_is_not_there_is_said_at_once(monkeypatch) -> None:
    monkeypatch.delenv("RETRAIN_HOOK", raising=False)
    with pytest.raises(ConfigError, match=r"RETRAIN_HOOK .* not set"):
        notifier([], [], webhook_env="RETRAIN_HOOK")
    monkeypatch.setenv("RETRAIN_HOOK", "hunter2")
    with pytest.raises(ConfigError) as raised:
        notifier([], [], webhook_env="RETRAIN_HOOK")
    assert "hunter2" not in str(raised.value)


def test_counts_are_read_from_the_servers_own_page() -> None:
    metrics = Metrics()
    for _ in range(3):
        with metrics.observe("m", "Predict", "GRPC"):
            pass
    with metrics.observe("other", "Predict", "GRPC"):
        pass
    found = watching.parse(metrics.page().decode(), "m")
    assert (found.answered, found.failed) == (3.0, 0.0)
    assert found.seconds > 0


@pytest.mark.parametrize(
    ("start", "now", "said"),
    [
        (Sample(100, 0, 1.0), Sample(200, 0, 2.0), ""),
        (Sample(100, 0, 1.0), Sample(150, 50, 2.0), "50.0% of 100 requests failed"),
        (Sample(100, 0, 1.0), Sample(200, 0, 6.0), "5.0 times as long as before"),
        (Sample(100, 0, 1.0), Sample(105, 5, 2.0), ""),  # ten requests say nothing
        (Sample(100, 9, 1.0), Sample(30, 0, 0.1), ""),  # the server was restarted
        (Sample(0, 0, 0.0), Sample(100, 0, 90.0), ""),  # nothing to compare a time with
        (Sample(100, 0, 1.0), None, ""),  # a server that is down is no fault of the model
    ],
)
def test_what_is_wrong_since_a_promotion(start, now, said) -> None:
    fault = watching.fault(start, now, Watch())
    assert said in fault
    assert bool(fault) == bool(said)


def test_a_watch_that_saw_little_says_so() -> None:
    enough, few = Sample(200, 0, 1.0), Sample(105, 0, 1.0)
    start, url = Sample(100, 0, 1.0), "http://127.0.0.1:8501"
    assert watching.unseen(start, enough, Watch(), url) == ""
    assert watching.unseen(start, few, Watch(), url) == "only 5 requests came while it was watched"
    assert "not watched: http://127.0.0.1:8501/monitoring" in watching.unseen(start, None, Watch(), url)


@pytest.mark.parametrize(
    ("settings", "path", "place"),
    [
        ({"watch": {"minutes": 5}}, "x.csv", "retraining.watch"),
        ({"on_new_span": True}, "x.csv", "retraining.on_new_span"),
        ({"on_drift": True}, "x.csv", "retraining.on_drift"),
        ({"golden": "none.csv"}, "x-{SPAN}.csv", "retraining.golden: none.csv"),
    ],
)
def test_what_would_never_do_what_it_says_is_a_mistake(tmp_path, settings, path, place) -> None:
    model = {"family": "tabular"}
    raw = {"name": "trips", "data": {"path": path}, "model": model, "retraining": settings}
    with pytest.raises(ConfigError) as raised:
        assembly.scheduler(config.from_mapping(raw), Workspace.open(tmp_path / "w", create=True), print)
    assert raised.value.place == place


def test_a_number_that_is_predicted_has_no_accuracy(tmp_path) -> None:
    model = {"family": "tabular", "task": "regression"}
    raw = {"name": "fares", "data": {"path": "x.csv"}, "model": model}
    experiment = config.from_mapping({**raw, "retraining": {"live": {"min_accuracy": 0.9}}})
    with pytest.raises(ConfigError, match="predicts a number"):
        assembly.scheduler(experiment, Workspace.open(tmp_path / "w", create=True), print)


def test_outcomes_are_counted_by_version_newest_first(workspace, tmp_path) -> None:
    source = tmp_path / "outcomes.csv"
    source.write_text("prediction,label,version\na,a,1\na,b,2\nb,b,2\n")
    assert feedback.add(workspace, "m", source, 2, 5.0) == 3
    more = tmp_path / "more.jsonl"
    more.write_text('{"prediction": "c", "label": "c"}\n')
    feedback.add(workspace, "m", more, 2, 6.0)
    assert feedback.recent(workspace, "m", 2, 100) == (2, 3)
    assert feedback.recent(workspace, "m", 2, 2) == (2, 2)
    assert feedback.recent(workspace, "m", 1, 100) == (1, 1)
    assert feedback.recent(workspace, "n", 1, 100) == (0, 0)


def test_outcomes_keep_to_their_room_and_the_newest_stay(workspace, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(feedback, "ROOM", 2_000)
    source = tmp_path / "outcomes.csv"
    source.write_text("prediction,label\n" + "a,b\n" * 5)
    for _ in range(20):
        feedback.add(workspace, "m", source, 1, 5.0)
    older, newer = feedback.paths_of(workspace, "m")
    assert older.stat().st_size + (newer.stat().st_size if newer.exists() else 0) < 3_000
    source.write_text("prediction,label\na,a\n")
    feedback.add(workspace, "m", source, 1, 6.0)
    assert feedback.recent(workspace, "m", 1, 6) == (1, 6)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"prediction,label\na,a\nb,\n", "An outcome has no label"),
        ("a.csv", b"prediction\na\n", "An outcome has no label"),
        ("a.jsonl", b'{"prediction": "a", "label": "a"}\n{', "A line is no JSON"),
        ("a.csv", b"prediction,label,version\na,a,one\n", "is no number"),
        ("a.csv", b"prediction,label\n\xff\xfe,a\n", "cannot be read"),
    ],
)
def test_a_bad_outcome_adds_nothing(workspace, tmp_path, name, content, said) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said) as raised:
        feedback.add(workspace, "m", tmp_path / name, 1, 5.0)
    assert name in raised.value.place
    assert feedback.recent(workspace, "m", 1, 9) == (0, 0)


def test_parts_of_experiments_with_long_names_are_told_apart() -> None:
    names = ["a" * 39 + end for end in "bc"]
    made = {part_name(name, part) for name in names for part in ("span", "golden")}
    assert len(made) == 4
    for name in (*made, part_name("trips", "golden")):
        raw = {"name": name, "data": {"path": "x.csv"}, "model": {"family": "tabular"}}
        assert config.from_mapping(raw).name == name
    assert part_name("trips", "golden") == "trips-golden"


def run(*arguments: str) -> object:
    return cli.main(args=list(arguments), prog_name="headrace", standalone_mode=False)


def test_the_commands_say_what_is_missing(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="Nothing says when"):
        run("retrain", "digits")
    with pytest.raises(ConfigError, match="Name a kind"):
        run("retrain", "install", "digits")
    with pytest.raises(HeadraceError, match="no experiment 'digts'"):
        run("retrain", "install", "digts", "--systemd")
    with pytest.raises(ConfigError, match="no cron expression") as raised:
        run("retrain", "install", "digits", "--kubernetes", "--image", "r/h:1", "--look", "often")
    assert raised.value.place == "--look"
    run("retrain", "install", "digits", "--kubernetes", "--image", "r/h:1", "-o", "job.yaml")
    assert yaml.safe_load(Path("job.yaml").read_text())["kind"] == "CronJob"
    run("retrain", "install", "digits", "--systemd", "--set", "retraining.every=0 3 * * *")
    assert "ExecStart=" in capsys.readouterr().out


def test_a_span_is_looked_at_once_for_each_model(workspace, monkeypatch) -> None:
    raw = {"name": "trips", "data": {"path": "x-{SPAN}.csv"}, "model": {"family": "tabular"}}
    measured: list[object] = []

    def measure(self: object, newest: object, serving: object) -> list[str]:
        measured.append(newest)
        return ["it has moved"]

    monkeypatch.setattr(observe.SpanDrift, "_measure", measure)

    def look(span: int, run: str, *, looks_only: bool = False, **drift: float) -> object:
        experiment = config.from_mapping({**raw, "retraining": {"drift": drift or {"default": 0.3}}})
        serving: Any = SimpleNamespace(run=SimpleNamespace(run_id=run))
        made = observe.SpanDrift(experiment, workspace, lambda: None, looks_only=looks_only)  # type: ignore[arg-type, return-value]
        return made((span, 0), serving)

    assert look(4, "run-1", looks_only=True) is None
    assert [look(4, "run-1"), look(4, "run-1"), look(4, "run-1", looks_only=True)] == [["it has moved"]] * 3
    assert measured == [(4, 0)]
    for other in (look(5, "run-1"), look(5, "run-2"), look(5, "run-2", default=0.2)):
        assert other == ["it has moved"]
    assert len(measured) == 4
