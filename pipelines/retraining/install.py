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

_SECRETS = "headrace-retraining"


@dataclass(frozen=True)
class Job:
    """What is to be started.

    Attributes:
        experiment: name or file.
        workspace: absolute.
        overrides: as `--set` takes them.
        variables: environment variables that hold addresses or secrets; named, never written.
    """

    experiment: str
    workspace: Path
    overrides: Sequence[str] = ()
    variables: Sequence[str] = ()

    @property
    def name(self) -> str:
        plain = re.sub(r"[^a-z0-9]+", "-", Path(self.experiment).stem.lower()).strip("-")
        return f"headrace-retrain-{plain}"[:52].rstrip("-")

    def command(self, *more: str, workspace: str | None = None) -> list[str]:
        sets = [part for override in self.overrides for part in ("--set", override)]
        where = ["--workspace", workspace or str(self.workspace)]
        return ["retrain", self.experiment, *where, *sets, *more]


def systemd_unit(job: Job, folder: Path) -> str:
    """A unit that keeps a scheduler running as the user who installs it.

    Args:
        job: what to start.
        folder: where it is started, since experiment files and data may be named from there.
    """
    command = shlex.join([sys.executable, "-m", "pipelines.cli.main", *job.command()]).replace("%", "%%")
    environment = f"EnvironmentFile=%h/.config/headrace/{job.name}.env\n" if job.variables else ""
    wanted = "".join(f"# {name}=...\n" for name in job.variables)
    note = f"# In that file, readable by you alone:\n{wanted}" if wanted else ""
    return (
        "[Unit]\n"
        f"Description=Headrace retrains {job.experiment}\n"
        "After=network-online.target\n\n"
        "[Service]\n"
        f"WorkingDirectory={folder}\n"
        f"{note}{environment}"
        f"ExecStart={command}\n"
        "Restart=on-failure\n"
        "RestartSec=30\n"
        # A round that is interrupted goes on from its checkpoint.
        "TimeoutStopSec=120\n"
        "KillMode=mixed\n\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )


def cron_job(job: Job, *, image: str, claim: str, schedule: str, zone: str) -> dict[str, Any]:
    """A CronJob whose pods decide once, and carry out what they decided.

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
        "args": job.command("--once"),
        "volumeMounts": [{"name": "workspace", "mountPath": mount}],
        "resources": {
            "requests": {"cpu": "1", "memory": "4Gi"},
            "limits": {"memory": "8Gi"},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if job.variables:
        container["env"] = [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": _SECRETS, "key": name}}}
            for name in job.variables
        ]
    pod = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
        "containers": [container],
        "volumes": [{"name": "workspace", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": job.name, "labels": {"app.kubernetes.io/name": job.name}},
        "spec": {
            "schedule": schedule,
            "timeZone": zone,
            "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}},
        },
    }
