"""Files that start retraining by themselves: a systemd unit, or a Kubernetes CronJob.

systemd_unit(job)      # headrace-retrain-digits.service
cron_job(job, image="registry/headrace:1", claim="headrace-workspace")
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_SECRETS = "headrace-retraining"
_FOLDER = "/etc/headrace"


class Dumper(yaml.SafeDumper):
    """Texts of several lines as they are, so that a file within a file can be read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Dumper.add_representer(str, _text)


@dataclass(frozen=True)
class Job:
    """What is to be started.

    Attributes:
        experiment: name or file.
        workspace: absolute.
        overrides: as `--set` takes them.
        variables: environment variables that hold addresses or secrets; named, never written.
        welcome: others that are taken where they are given.
        source: text of the experiment's file; empty where it is one of Headrace's own.
    """

    experiment: str
    workspace: Path
    overrides: Sequence[str] = ()
    variables: Sequence[str] = ()
    welcome: Sequence[str] = ()
    source: str = ""

    @property
    def name(self) -> str:
        plain = re.sub(r"[^a-z0-9]+", "-", Path(self.experiment).stem.lower()).strip("-")
        return f"headrace-retrain-{plain}"[:52].rstrip("-")

    @property
    def file(self) -> str:
        """Name of the experiment's file, which may be the experiment's, too."""
        return re.sub(r"[^A-Za-z0-9._-]", "-", Path(self.experiment).name)

    def command(self, experiment: str, *more: str) -> list[str]:
        sets = [part for override in self.overrides for part in ("--set", override)]
        return ["retrain", experiment, "--workspace", str(self.workspace), *sets, *more]


def systemd_unit(job: Job, folder: Path) -> str:
    """A unit that keeps a scheduler running as the user who installs it.

    Args:
        job: what to start.
        folder: where it is started, since experiment files and data may be named from there.
    """
    arguments = [sys.executable, "-m", "pipelines.cli.main", *job.command(job.experiment)]
    # $ would stand for a variable in a command, and nowhere else.
    command = _plain(shlex.join(arguments)).replace("$", "$$")
    return (
        "[Unit]\n"
        f"Description=Headrace retrains {_plain(job.experiment)}\n"
        "After=network-online.target\n\n"
        "[Service]\n"
        f"WorkingDirectory={_plain(str(folder))}\n"
        f"{_environment(job)}"
        f"ExecStart={command}\n"
        "Restart=on-failure\n"
        "RestartSec=30\n"
        # A round that is interrupted goes on from its checkpoint.
        "TimeoutStopSec=120\n"
        "KillMode=mixed\n\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )


def _environment(job: Job) -> str:
    if not job.variables and not job.welcome:
        return ""
    wanted = "".join(f"# {name}=...\n" for name in job.variables)
    welcome = "".join(f"# {name}=... (where it is used)\n" for name in job.welcome)
    # A file that may be missing, where nothing in it is needed.
    file = f"{'' if job.variables else '-'}%h/.config/headrace/{job.name}.env"
    return f"# In that file, readable by you alone:\n{wanted}{welcome}EnvironmentFile={file}\n"


def _plain(text: str) -> str:
    """As systemd takes it for what it is: % would stand for something."""
    return text.replace("%", "%%")


def config_map(job: Job) -> dict[str, Any] | None:
    """A ConfigMap that holds the experiment's file; None for one of Headrace's own."""
    if not job.source:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": job.name, "labels": {"app.kubernetes.io/name": job.name}},
        "data": {job.file: job.source},
    }


def _from_secret(name: str, **more: bool) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": _SECRETS, "key": name, **more}}}


def cron_job(job: Job, *, image: str, claim: str, schedule: str, zone: str) -> dict[str, Any]:
    """A CronJob whose pods decide once, and carry out what they decided.

    An experiment's own file comes from `config_map`; what it names (data, a
    golden set, a schema) has to lie where the pods find it under the same path.

    Args:
        job: what to start; its workspace is where the volume is mounted.
        image: with Headrace in it.
        claim: PersistentVolumeClaim that holds the workspace.
        schedule: cron expression of how often to look.
        zone: its time zone.
    """
    mount = str(job.workspace)
    container: dict[str, Any] = {
        "name": "retrain",
        "image": image,
        "command": ["headrace"],
        "args": job.command(f"{_FOLDER}/{job.file}" if job.source else job.experiment, "--once"),
        "volumeMounts": [{"name": "workspace", "mountPath": mount}],
        "resources": {
            "requests": {"cpu": "1", "memory": "4Gi"},
            "limits": {"memory": "8Gi"},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    secrets = [_from_secret(name) for name in job.variables]
    secrets += [_from_secret(name, optional=True) for name in job.welcome]
    if secrets:
        container["env"] = secrets
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
        "containers": [container],
        "volumes": [{"name": "workspace", "persistentVolumeClaim": {"claimName": claim}}],
    }
    if job.source:
        container["volumeMounts"].append({"name": "experiment", "mountPath": _FOLDER, "readOnly": True})
        pod["volumes"].append({"name": "experiment", "configMap": {"name": job.name}})
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": job.name, "labels": {"app.kubernetes.io/name": job.name}},
        "spec": {
            "schedule": schedule,
            "timeZone": zone,
            "concurrencyPolicy": "Forbid",
            # Without it, a CronJob that has missed 100 looks during a long round is never started again.
            "startingDeadlineSeconds": 600,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}},
        },
    }
