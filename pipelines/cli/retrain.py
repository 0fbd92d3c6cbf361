"""headrace retrain: training again, by itself."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines import config, remote
from pipelines.cli import names
from pipelines.cli.groups import default_to
from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import output_apart
from pipelines.cli.watch import Watch, telling, watch_options
from pipelines.errors import ConfigError, HeadraceError, NotFoundError, nearest
from pipelines.workspace import Workspace

if TYPE_CHECKING:
    from pipelines.telemetry.notices import Notice

_STYLES = {
    "promoted": "green",
    "refused": "yellow",
    "bad_data": "yellow",
    "rolled_back": "red",
    "failed": "red",
}


def _moment(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds") if seconds else None


COLUMNS = (
    Column("round"),
    Column("began", show=lambda iso: f"{datetime.fromisoformat(iso):%Y-%m-%d %H:%M}"),
    Column("outcome", style=lambda outcome: _STYLES.get(outcome, "")),
    Column("version", right=True),
    Column("reason"),
    Column("detail"),
)

STATUS = tuple(
    Column(key)
    for key in ("experiment", "scheduler", "looked", "round", "phase", "failures", "next", "reason", "until")
)
EXPLAINED = (*COLUMNS, Column("run"), Column("spans"), Column("phase"))

set_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="As of headrace run; repeatable."
)


@click.group("retrain", cls=default_to("run"))
def command() -> None:
    """Train EXPERIMENT again when its time, its data or its model say so.

    \b
    Examples:
      headrace retrain trips.yaml --every "0 3 * * *"
      headrace retrain trips.yaml --on-new-span --on-drift
      headrace retrain trips.yaml --once
      headrace retrain trips.yaml --on-new-span --metrics-port 9400 --log-format json
      headrace retrain status trips.yaml

    Triggers combine; retraining: in the experiment has the same and more. Each
    round trains, compares the candidate with the model in service, promotes it
    only where it is not worse, and watches it; a killed scheduler goes on where
    it was.
    """


@command.command("run")
@click.argument("experiment", shell_complete=names.experiments)
@click.option("--every", metavar="CRON", help='When to train, such as "0 3 * * *" (retraining.timezone).')
@click.option("--on-new-span", is_flag=True, help="When a span or a version of one arrives, late ones too.")
@click.option("--on-drift", is_flag=True, help="When the newest span has moved from the training data.")
@click.option("--once", is_flag=True, help="Decide once, carry it out, and end; for cron jobs.")
@set_option
@workspace_option
@watch_options
def run_command(
    experiment: str,
    every: str | None,
    on_new_span: bool,
    on_drift: bool,
    once: bool,
    overrides: tuple[str, ...],
    root: str,
    watch: Watch,
) -> int:
    """Decide, carry out, wait; until it is interrupted.

    \b
    Example:
      headrace retrain run trips.yaml --on-new-span --every "0 3 * * *"
    """
    settings = _load(experiment, overrides, every=every, on_new_span=on_new_span, on_drift=on_drift)
    if not once and not _has_trigger(settings):
        raise ConfigError(
            "Nothing says when to train again",
            place="retraining",
            remedy="Give --every, --on-new-span or --on-drift, or set them in the experiment.",
        )
    from pipelines.retraining.assembly import scheduler
    from pipelines.telemetry.notices import tell_all

    workspace = Workspace.open(root, create=True)
    with (
        telling(watch, workspace.runs / "telemetry.log") as elsewhere,
        output_apart(workspace.runs / "headrace.log") as console,
    ):
        console.quiet = watch.as_json

        def tell(notice: Notice) -> None:
            line = _as_text(notice)
            if line:
                moment = datetime.fromtimestamp(notice.at)
                console.print(f"{moment:%Y-%m-%d %H:%M:%S} {line}", highlight=False, markup=False)

        made = scheduler(settings, workspace, tell_all(tell, elsewhere))
        if not once:
            made.forever()
        step = made.once()
        if step.decision.action == "wait":
            made.say_waiting(step.decision)
    return 1 if step.record is not None and step.record.outcome == "failed" else 0


def _as_text(notice: Notice) -> str:
    """The line that a terminal gets; empty for what it need not see."""
    if notice.level == "debug":
        return ""
    if notice.event.startswith("retraining."):
        return notice.message
    return f"  {notice.message}" if notice.event in ("run.begun", "node.ended", "node.retrying") else ""


@command.command("status")
@click.argument("experiment", shell_complete=names.experiments)
@set_option
@workspace_option
@output_option
def status(experiment: str, overrides: tuple[str, ...], root: str, output: str) -> None:
    """Say what is going on, what comes next, and why.

    \b
    Example:
      headrace retrain status trips.yaml
    """
    from pipelines import leases
    from pipelines.retraining.assembly import scheduler

    settings = _load(experiment, overrides)
    workspace = Workspace.open(root)
    made = scheduler(settings, workspace, lambda notice: None, looks_only=True)
    folder = workspace.root / "retraining" / settings.name
    holder = leases.describe(folder) if leases.is_alive(folder) else None
    presence = made.ledger.presence
    waiting = None if holder else presence.who_waits()
    current, decision = made.ledger.unfinished(), made.look()
    row = {
        "experiment": settings.name,
        "scheduler": holder or (f"{waiting}, waiting" if waiting else None),
        "looked": _moment(presence.last_look() or 0.0),
        "round": current.trigger if current else None,
        "phase": current.phase if current else None,
        "failures": len(made.ledger.failures()),
        "next": decision.action,
        "reason": decision.reason,
        "until": _moment(decision.until),
    }
    if output == "table":
        for key, value in row.items():
            click.echo(f"{key:<12}{'' if value is None else value}")
    else:
        show([row], STATUS, output)


@command.command("history")
@click.argument("experiment", shell_complete=names.experiments)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many.")
@workspace_option
@output_option
def history(experiment: str, limit: int, root: str, output: str) -> None:
    """List rounds, newest first: cause, outcome, version.

    \b
    Example:
      headrace retrain history trips.yaml
    """
    found = _ledger(experiment, root).records()
    show([_row(record) for record in reversed(found[-limit:])], COLUMNS, output, empty="No round yet.")


@command.command("explain")
@click.argument("experiment", shell_complete=names.experiments)
@click.argument("round_name", metavar="ROUND")
@workspace_option
@output_option
def explain(experiment: str, round_name: str, root: str, output: str) -> None:
    """Say why ROUND was begun and what came of it. ROUND is its name, or latest.

    \b
    Example:
      headrace retrain explain trips.yaml latest
    """
    records = {record.trigger: record for record in _ledger(experiment, root).records()}
    name = next(reversed(records), "") if round_name == "latest" else round_name
    if name not in records:
        raise NotFoundError(
            f"There is no round {round_name!r}", place=experiment, remedy=nearest(round_name, records)
        )
    record = records[name]
    if output != "table":
        told = {"run": record.run_id or None, "spans": record.spans, "phase": record.phase}
        show([{**_row(record), **told}], EXPLAINED, output)
        return
    spans = ", ".join(f"{span}{f' v{version}' if version else ''}" for span, version in record.spans)
    lines = {
        "round": record.trigger,
        "began": _moment(record.began),
        "because": record.reason,
        "attempts": record.attempts if record.attempts > 1 else None,
        "spans": spans or None,
        "run": record.run_id or None,
        "before": f"version {record.before}" if record.before else "no version in service",
        "outcome": record.outcome or f"going on: {record.phase}",
        "detail": record.detail or None,
        "ended": _moment(record.ended),
    }
    for key, value in lines.items():
        if value is not None:
            click.echo(f"{key:<10}{value}")


@command.command("reset")
@click.argument("experiment", shell_complete=names.experiments)
@workspace_option
def reset(experiment: str, root: str) -> None:
    """Forget failures, so that a stopped schedule goes on.

    \b
    Example:
      headrace retrain reset trips.yaml
    """
    ledger = _ledger(experiment, root)
    count = len(ledger.failures())
    ledger.reset(time.time())
    click.echo(f"{count} failures no longer count")


@command.command("install")
@click.argument("experiment", shell_complete=names.experiments)
@click.option("--systemd", "kind", flag_value="systemd", help="A unit for systemctl --user.")
@click.option("--kubernetes", "kind", flag_value="kubernetes", help="A CronJob.")
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), help="Where to write it.")
@click.option("--image", help="For Kubernetes: an image with Headrace in it.")
@click.option("--claim", default="headrace-workspace", show_default=True, help="Its volume's claim.")
@click.option("--look", default="*/10 * * * *", show_default=True, help="How often a CronJob looks.")
@set_option
@workspace_option
def install(
    experiment: str,
    kind: str | None,
    target: Path | None,
    image: str | None,
    claim: str,
    look: str,
    overrides: tuple[str, ...],
    root: str,
) -> None:
    """Write what starts retraining by itself; nothing is started.

    \b
    Examples:
      headrace retrain install trips.yaml --systemd -o ~/.config/systemd/user/headrace-retrain-trips.service
      headrace retrain install trips.yaml --kubernetes --image registry/headrace:1 -o cronjob.yaml

    For Kubernetes the experiment's file goes along; --workspace is where the
    volume is mounted, and data has to lie where the pods find it under the path
    that the experiment names.
    """
    import yaml

    from pipelines.retraining import ticks
    from pipelines.retraining.install import Dumper, Job, config_map, cron_job, systemd_unit
    from pipelines.retraining.variables import variables

    settings = _load(experiment, overrides)
    told = variables(settings)
    place = Path(root).expanduser().absolute()
    named = _named(experiment)
    source = Path(named).read_text() if Path(named).is_absolute() else ""
    job = Job(named, place, overrides, told.needed, told.welcome, source)
    if kind == "kubernetes":
        if not image:
            raise ConfigError("--kubernetes needs an image", remedy="--image registry/headrace:1")
        ticks.check(look, "--look")
        made = cron_job(job, image=image, claim=claim, schedule=look, zone=settings.retraining.timezone)
        documents = [item for item in (config_map(job), made) if item is not None]
        text = yaml.dump_all(documents, Dumper=Dumper, sort_keys=False)
    elif kind == "systemd":
        if not _has_trigger(settings):
            raise ConfigError(
                "Nothing says when to train again",
                place="retraining",
                remedy="Set every, on_new_span or on_drift in the experiment, or with --set.",
            )
        text = systemd_unit(job, Path.cwd())
    else:
        raise ConfigError("Name a kind", remedy="--systemd or --kubernetes")
    _write(target, text)


def _named(experiment: str) -> str:
    """A file by its whole path, since the unit may be started from elsewhere."""
    path = Path(experiment)
    if remote.is_remote(experiment):
        return experiment
    return str(path.absolute()) if path.is_file() else experiment


def _write(target: Path | None, text: str) -> None:
    if target is None:
        click.echo(text, nl=False)
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    except OSError as error:
        raise HeadraceError(f"The file cannot be written: {error.strerror}", place=str(target)) from error
    click.echo(f"Written to {target}")


def _load(
    experiment: str,
    overrides: tuple[str, ...],
    *,
    every: str | None = None,
    on_new_span: bool = False,
    on_drift: bool = False,
) -> config.Experiment:
    given = [*overrides]
    if every is not None:
        given.append(f"retraining.every={json.dumps(every)}")
    given += ["retraining.on_new_span=true"] if on_new_span else []
    given += ["retraining.on_drift=true"] if on_drift else []
    return config.load(experiment, given)


def _has_trigger(settings: config.Experiment) -> bool:
    told = settings.retraining
    causes = (told.every, told.on_new_span, told.on_drift, told.predictions, told.live, told.max_age_days)
    return any(causes)


def _ledger(experiment: str, root: str) -> Any:
    from pipelines.retraining.ledger import Ledger

    return Ledger(Workspace.open(root), config.load(experiment).name)


def _row(record: Any) -> dict[str, Any]:
    return {
        "round": record.trigger,
        "began": _moment(record.began),
        "outcome": record.outcome or record.phase,
        "version": record.version or None,
        "reason": record.reason,
        "detail": record.detail or None,
    }
