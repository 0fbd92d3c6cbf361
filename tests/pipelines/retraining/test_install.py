"""What starts retraining by itself: a unit, a CronJob, and the variables that both name."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import yaml

from pipelines import config
from pipelines.retraining.install import Dumper, Job, config_map, cron_job, systemd_unit
from pipelines.retraining.variables import Variables, variables


def test_a_cron_job_that_kubernetes_takes() -> None:
    job = Job("/data/trips.yaml", Path("/workspace"), ["train.epochs=3"], ["RETRAIN_HOOK"])
    made = cron_job(
        job, image="registry/headrace:1", claim="disk", schedule="*/10 * * * *", zone="Europe/Berlin"
    )
    kubernetes_validate.validate(made, "1.30", strict=True)
    assert config_map(job) is None
    (container,) = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][:2] == ["retrain", "/data/trips.yaml"]
    assert container["args"][-1] == "--once"
    assert container["env"][0]["valueFrom"]["secretKeyRef"]["key"] == "RETRAIN_HOOK"


def test_an_experiments_own_file_goes_along_to_kubernetes() -> None:
    job = Job("/home/me/trips.yaml", Path("/workspace"), source="model: {family: tabular}\n")
    made = cron_job(job, image="registry/headrace:1", claim="disk", schedule="*/10 * * * *", zone="UTC")
    held = config_map(job)
    for document in (made, held):
        kubernetes_validate.validate(document, "1.30", strict=True)
    pod = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][:2] == ["retrain", "/etc/headrace/trips.yaml"]
    assert {"name": "experiment", "configMap": {"name": held["metadata"]["name"]}} in pod["volumes"]
    assert held["data"] == {"trips.yaml": "model: {family: tabular}\n"}
    assert "trips.yaml: |\n    model: {family: tabular}\n" in yaml.dump(held, Dumper=Dumper)


def test_a_unit_names_secrets_and_never_holds_them(monkeypatch) -> None:
    monkeypatch.setenv("RETRAIN_HOOK", "https://secret")
    unit = systemd_unit(Job("/data/my trips.yaml", Path("/w"), [], ["RETRAIN_HOOK"]), Path("/home/me"))
    assert "ExecStart=" in unit
    assert "'/data/my trips.yaml'" in unit
    assert "RETRAIN_HOOK=..." in unit
    assert "https://secret" not in unit
    odd = systemd_unit(Job("/data/50%.yaml", Path("/w"), ["a=$b"]), Path("/home/50% $us"))
    # systemd undoes $$ in commands alone.
    assert "WorkingDirectory=/home/50%% $us\n" in odd
    assert "/data/50%%.yaml" in odd
    assert "'a=$$b'" in odd


def test_what_an_experiment_needs_of_its_environment_is_named() -> None:
    raw = {
        "name": "trips",
        "data": {"path": "s3://bucket/{SPAN}.csv"},
        "model": {"family": "tabular"},
        "push": {"to": ["gs://models/live"]},
        "metadata": {"url": "postgresql://me@db/headrace", "password_env": "DB_PASSWORD"},
        "retraining": {"notify": {"webhook_env": "RETRAIN_HOOK"}},
    }
    found = variables(config.from_mapping(raw), {})
    assert found.needed == ("RETRAIN_HOOK", "DB_PASSWORD")
    assert {"AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS"} <= set(found.welcome)
    job = Job("trips.yaml", Path("/w"), [], found.needed, found.welcome)
    unit = systemd_unit(job, Path("/home/me"))
    assert "# DB_PASSWORD=...\n" in unit and "# AWS_SECRET_ACCESS_KEY=... (where it is used)\n" in unit
    assert "\nEnvironmentFile=%h/" in unit
    made = cron_job(job, image="registry/headrace:1", claim="disk", schedule="*/10 * * * *", zone="UTC")
    kubernetes_validate.validate(made, "1.30", strict=True)
    (container,) = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    keys = {item["name"]: item["valueFrom"]["secretKeyRef"] for item in container["env"]}
    assert "optional" not in keys["DB_PASSWORD"]
    assert keys["AWS_SECRET_ACCESS_KEY"]["optional"] is True


def test_the_record_that_the_environment_names_is_named_along() -> None:
    raw = {"name": "trips", "data": {"path": "x.csv"}, "model": {"family": "tabular"}}
    told = config.from_mapping(raw)
    assert variables(told, {}) == Variables((), ())
    place = {"HEADRACE_METADATA": "mysql://me@db/headrace"}
    assert variables(told, place) == Variables(("HEADRACE_METADATA",), ("HEADRACE_METADATA_PASSWORD",))
