"""What is done to served models outside of runs: rolling back and forward, and pruning.

    done = roll_back(workspace, "digits", None, "slow", time.time())
    done.change.after, done.execution_id

Mirrors of the serving root follow what was done, as the last step of each.

Each is an execution of its own in ML Metadata, with events to the pushed
models it concerns; nothing of the history is altered. It is recorded as
running before the first folder moves, and as complete after the last, so that
one that was cut short can be told. What is in service is what the folders say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from components.errors import PushError, ServableError
from components.serving import manifest
from components.serving.client import ModelClient, ServerError
from components.serving_pusher import mirror
from components.serving_pusher import root as serving_root
from components.serving_pusher.root import Change, Withdrawal
from pipelines import leases, recovery
from pipelines.errors import HeadraceError, NotFoundError, WorkspaceError, nearest
from pipelines.lineage.database import Database
from pipelines.lineage.store import PRUNE, ROLLBACK, Store
from pipelines.workspace import Workspace

_POLL_S = 0.2


class NotServedError(HeadraceError):
    """A server that does not serve what it should, in time, or a mirror that does not hold it."""

    exit_code = 1


@dataclass(frozen=True)
class Rollback:
    """What a rollback did; `execution_id` is None where there was nothing to do."""

    change: Change
    execution_id: int | None


@dataclass(frozen=True)
class PrunePlan:
    """Versions of a model that go, and that stay; numbers ascend."""

    removed: Sequence[int]
    kept: Sequence[int]
    in_service: int | None


def root_of(workspace: Workspace, model: str) -> Path:
    """The serving root of a model.

    Raises:
        NotFoundError: nothing was pushed under that name.
    """
    folders = workspace.serving.iterdir() if workspace.serving.is_dir() else ()
    names = [path.name for path in folders if path.is_dir() and not path.name.startswith(".")]
    if model not in names:
        raise NotFoundError(
            f"There is no model {model!r}", place=str(workspace.serving), remedy=nearest(model, names)
        )
    return workspace.serving_root(model)


def roll_back(
    workspace: Workspace, model: str, to: int | None, reason: str, now: float, *, force: bool = False
) -> Rollback:
    """Puts a version in service: the next older one, or `to`, which may also be a newer one.

    Args:
        workspace: where the model is served from.
        model: its name.
        to: a version that is there or was withdrawn; None for the next older one.
        reason: in words; recorded.
        now: seconds since the epoch.
        force: also a version that was withdrawn because it answered wrongly.

    Raises:
        NotFoundError: there is no such model or version.
        WorkspaceError: the version is damaged or was withdrawn by a push, or
            the root cannot be written.
    """
    root = root_of(workspace, model)
    try:
        target = _older(root) if to is None else to
        _check(root, target, force=force)
        withdrawal = Withdrawal("rollback", reason, now)
        with _Record(workspace.database, ROLLBACK, model) as record:
            change = serving_root.put_in_service(
                root, target, withdrawal, lambda coming: _announce(record, coming, withdrawal)
            )
        _follow(root)
        return Rollback(change, record.execution_id)
    except PushError as error:
        raise NotFoundError(error.headline, place=error.place, remedy=error.remedy) from error
    except OSError as error:
        raise _not_writable(root, error) from error


def _older(root: Path) -> int:
    current = serving_root.in_service(root)
    older = [number for number in serving_root.versions(root) if current is not None and number < current]
    if not older:
        aside = ", ".join(map(str, serving_root.withdrawals(root)))
        raise NotFoundError(
            f"There is no older version than {current}"
            if current is not None
            else "No version is in service",
            place=str(root),
            remedy=f"Withdrawn: {aside}; name one with --to." if aside else "",
        )
    return older[-1]


def _check(root: Path, target: int, *, force: bool) -> None:
    """Refuses a version that is not whole, or is known to answer wrongly."""
    withdrawal = serving_root.withdrawals(root).get(target)
    if withdrawal is not None and withdrawal.cause == "canary" and not force:
        raise WorkspaceError(
            f"Version {target} was withdrawn: {withdrawal.reason}",
            place=str(root),
            remedy="Name another, or insist with --force.",
        )
    folder = serving_root.folder_of(root, target)
    if folder is None or not (folder / manifest.PATH).exists():
        return  # unknown, which is said later; or pushed by others
    try:
        faults = manifest.faults(folder, contents=False)
    except ServableError as error:
        raise WorkspaceError(error.headline, place=error.place, remedy=error.remedy) from error
    if faults:
        raise WorkspaceError(
            f"Version {target} is damaged: {'; '.join(faults)}", place=str(folder), remedy="Name another."
        )


class _Record:
    """An execution in ML Metadata that begins before folders are moved, and ends after."""

    def __init__(self, database: Database, kind: str, model: str) -> None:
        self._database, self._kind, self._model = database, kind, model
        self.execution_id: int | None = None
        self._alive = leases.shared(recovery.operations_lock(database.path.parent))

    def begin(self, properties: Mapping[str, str | int | float], roles: Mapping[str, Sequence[int]]) -> None:
        """Records what is about to be done, and to which versions, by role."""
        with Store(self._database) as store:
            pushed = pushed_artifacts(store, self._model)
            artifacts = {
                role: [pushed[number] for number in numbers if number in pushed]
                for role, numbers in roles.items()
            }
            everything = {"model": self._model, **properties}
            self.execution_id = store.begin_operation(self._kind, everything, artifacts)

    def __enter__(self) -> Self:
        self._alive.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self.execution_id is not None:
                with Store(self._database) as store:
                    store.end_operation(self.execution_id, ok=kind is None)
        finally:
            self._alive.__exit__(None, None, None)


def _announce(record: _Record, change: Change, withdrawal: Withdrawal) -> None:
    record.begin(
        {
            "from_version": change.before or 0,
            "to_version": change.after,
            "reason": withdrawal.reason,
            "at": withdrawal.at,
        },
        {
            "in_service": [change.after],
            "withdrawn": change.withdrawn,
            # ML Metadata keeps one event per artifact and execution.
            "restored": [number for number in change.restored if number != change.after],
        },
    )


def pushed_artifacts(store: Store, model: str) -> dict[int, int]:
    """Version -> id of the PushedModel artifact that it came from."""
    found = {}
    for artifact in store.artifacts_of_type("PushedModel"):
        destination = Path(str(artifact.properties.get("pushed_destination", "")))
        # By names, since a workspace may have been moved.
        if destination.name.isdigit() and destination.parent.name == model:
            found[int(destination.name)] = artifact.id
    return found


def plan_prune(workspace: Workspace, model: str, keep: int, served: Iterable[int] = ()) -> PrunePlan:
    """Which versions go when `keep` stay: the newest, withdrawn ones included.

    The version in service, and those that a server has loaded, always stay;
    the former counts as one of `keep`.

    Args:
        workspace: where the model is served from.
        model: its name.
        keep: at least 1.
        served: versions that a server has loaded.

    Raises:
        NotFoundError: there is no such model.
    """
    root = root_of(workspace, model)
    current = serving_root.in_service(root)
    known = sorted({*serving_root.versions(root), *serving_root.withdrawals(root)})
    newest = [number for number in reversed(known) if number != current]
    room = keep if current is None else keep - 1
    kept = {*newest[:room], *(set(served) & set(known))} | ({current} if current is not None else set())
    return PrunePlan([number for number in known if number not in kept], sorted(kept), current)


def prune(workspace: Workspace, model: str, plan: PrunePlan, now: float) -> int | None:
    """Removes what a plan says; returns the execution's id, None where nothing went.

    Raises:
        NotFoundError: there is no such model.
        WorkspaceError: the root cannot be written.
    """
    root = root_of(workspace, model)
    try:
        with _Record(workspace.database, PRUNE, model) as record:
            if plan.removed:
                versions = ", ".join(map(str, plan.removed))
                record.begin({"versions": versions, "at": now}, {"removed": plan.removed})
            serving_root.remove(root, plan.removed)
        _follow(root)
        return record.execution_id
    except OSError as error:
        raise _not_writable(root, error) from error


def _follow(root: Path) -> None:
    try:
        mirror.follow(root)
    except PushError as error:
        raise NotServedError(
            f"Done in the workspace, but not at a mirror: {error.headline}",
            place=error.place,
            remedy=f"{error.remedy} `headrace rollback {root.name} --to {serving_root.in_service(root)}` "
            "brings the mirror up to date.",
        ) from error


def _not_writable(root: Path, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        f"The serving root cannot be changed: {error.strerror or error}",
        place=str(error.filename or root),
        remedy="Make it writable.",
    )


def served_versions(client: ModelClient, model: str) -> list[int]:
    """Versions that a server has loaded.

    Raises:
        NotServedError: it does not answer.
    """
    try:
        states = client.status(model)
    except ServerError as error:
        raise NotServedError(error.headline, place=error.place, remedy=error.remedy) from error
    return sorted(number for number, state in states.items() if state == "AVAILABLE")


def wait_until_served(
    client: ModelClient,
    model: str,
    version: int,
    seconds: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Waits until a server serves `version` by default: loaded, and none above it.

    Raises:
        NotServedError: it does not answer, or not in time.
    """
    deadline = clock() + seconds
    while True:
        loaded = served_versions(client, model)
        if loaded and loaded[-1] == version:
            return
        if clock() > deadline:
            raise NotServedError(
                f"The server does not serve version {version} after {seconds:g} s; loaded: "
                f"{', '.join(map(str, loaded)) or 'none'}",
                place=model,
                remedy="See that it watches this serving root; its log says what does not load.",
            )
        sleep(_POLL_S)
