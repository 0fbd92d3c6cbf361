"""Which versions are loaded when: a fake loader, a fake clock, real folders."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.serving.server.loading import Call, Model
from components.serving.server.manager import ModelManager, Retries, State
from components.serving.server.status import Code, RequestError
from components.serving.server.text_protos import ModelConfig, latest


class FakeModel:
    signatures: dict[str, Any] = {}

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False

    def run(self, call: Call) -> list[Any]:
        return []

    def close(self) -> None:
        self.closed = True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Folders:
    """A base path whose versions are marker files; a version whose marker says `bad` does not load."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.loaded: list[int] = []
        self.models: dict[int, FakeModel] = {}
        self.on_load: Callable[[], None] = lambda: None
        base.mkdir()

    def add(self, name: str, content: str = "good") -> None:
        (self.base / name).mkdir(exist_ok=True)
        (self.base / name / "saved_model.pb").write_text(content)

    def remove(self, name: str) -> None:
        (self.base / name / "saved_model.pb").unlink()
        (self.base / name).rmdir()

    def load(self, folder: Path) -> Model:
        number = int(folder.name)
        self.on_load()
        self.loaded.append(number)
        if (folder / "saved_model.pb").read_text() != "good":
            raise ValueError("it is corrupt")
        self.models[number] = FakeModel(number)
        return self.models[number]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "m")


@pytest.fixture
def clock() -> Clock:
    return Clock()


Choose = Callable[[list[int]], list[int]]


def manager_of(folders: Folders, clock: Clock, choose: Choose | None = None, **more: Any) -> ModelManager:
    config = ModelConfig("m", folders.base, choose or latest(1), more.pop("labels", {}))
    return ModelManager([config], folders.load, retries=Retries(2, 60.0), clock=clock, **more)


def states(manager: ModelManager) -> dict[int, str]:
    return {version.number: version.state.name for version in manager.versions("m")}


async def settled(manager: ModelManager, wanted: dict[int, str]) -> None:
    """Waits for unloading, which goes on after a round."""
    async with asyncio.timeout(10):
        while states(manager) != wanted:
            await asyncio.sleep(0)


def test_only_numeric_folders_are_versions(folders: Folders, clock: Clock) -> None:
    for name in ("00000003", "x4", "5x", ".staging", "-6", "\u0667", "1.5", "9" * 19):
        folders.add(name)
    (folders.base / "9").write_text("a file")

    async def check() -> None:
        manager = manager_of(folders, clock, choose=lambda versions: versions)
        await manager.reconcile()
        assert states(manager) == {3: "AVAILABLE"}

    asyncio.run(check())


def test_a_new_version_loads_before_the_old_one_goes(folders: Folders, clock: Clock) -> None:
    folders.add("1")

    async def check() -> None:
        manager = manager_of(folders, clock)
        await manager.reconcile()
        folders.add("2")
        seen: list[dict[int, str]] = []
        folders.on_load = lambda: seen.append(states(manager))
        await manager.reconcile()
        assert seen == [{1: "AVAILABLE", 2: "LOADING"}]
        await settled(manager, {1: "END", 2: "AVAILABLE"})
        assert folders.models[1].closed

    asyncio.run(check())


def test_a_version_in_use_is_drained_first(folders: Folders, clock: Clock) -> None:
    folders.add("1")

    async def check() -> None:
        manager = manager_of(folders, clock)
        await manager.reconcile()
        with manager.lease("m") as version:
            folders.add("2")
            await manager.reconcile()
            assert states(manager) == {1: "UNLOADING", 2: "AVAILABLE"}
            assert version.model is not None and not folders.models[1].closed
            with manager.lease("m") as newer:
                assert newer.number == 2
            with pytest.raises(RequestError, match=r"Specific\(m, 1\)"), manager.lease("m", 1):
                pass
        await settled(manager, {1: "END", 2: "AVAILABLE"})
        assert folders.models[1].closed

    asyncio.run(check())


def test_a_corrupt_version_is_retried_and_the_old_one_stays(folders: Folders, clock: Clock) -> None:
    folders.add("1")

    async def check() -> None:
        manager = manager_of(folders, clock)
        await manager.reconcile()
        folders.add("2", "bad")
        await manager.reconcile()
        await manager.reconcile()
        assert folders.loaded == [1, 2]
        assert states(manager) == {1: "AVAILABLE", 2: "LOADING"}
        for _ in range(3):
            clock.now += 61
            await manager.reconcile()
        assert folders.loaded == [1, 2, 2, 2]
        assert states(manager) == {1: "AVAILABLE", 2: "END"}
        failed = manager.versions("m", 2)[0]
        assert failed.error is not None
        assert (failed.error.code, failed.error.message) == (Code.INVALID_ARGUMENT, "it is corrupt")

    asyncio.run(check())


def test_a_repaired_version_is_loaded_at_once(folders: Folders, clock: Clock) -> None:
    folders.add("1")

    async def check() -> None:
        manager = manager_of(folders, clock)
        folders.add("2", "bad")
        await manager.reconcile()
        folders.add("2", "good")
        await manager.reconcile()
        await settled(manager, {1: "END", 2: "AVAILABLE"})
        assert manager.versions("m", 2)[0].error is None

    asyncio.run(check())


def test_after_a_restart_the_newest_that_loads_is_served(folders: Folders, clock: Clock) -> None:
    for name, content in (("1", "good"), ("2", "good"), ("3", "bad"), ("4", "bad")):
        folders.add(name, content)

    async def check() -> None:
        manager = manager_of(folders, clock)
        await manager.reconcile()
        assert folders.loaded == [4, 3, 2]
        with manager.lease("m") as version:
            assert version.number == 2

    asyncio.run(check())


def test_policies(folders: Folders, clock: Clock) -> None:
    for name in "1234":
        folders.add(name)

    async def available(choose: Choose) -> list[int]:
        manager = manager_of(folders, clock, choose)
        await manager.reconcile()
        return sorted(version.number for version in manager.versions("m") if version.state is State.AVAILABLE)

    async def check() -> None:
        assert await available(latest(2)) == [3, 4]
        assert await available(lambda versions: versions) == [1, 2, 3, 4]
        assert await available(lambda versions: [item for item in versions if item in (1, 3, 9)]) == [1, 3]

    asyncio.run(check())


def test_a_removed_version_gives_way_to_the_one_before(folders: Folders, clock: Clock) -> None:
    folders.add("1")
    folders.add("2")

    async def check() -> None:
        manager = manager_of(folders, clock)
        await manager.reconcile()
        folders.remove("2")
        await manager.reconcile()
        await settled(manager, {1: "AVAILABLE", 2: "END"})
        folders.remove("1")
        await manager.reconcile()
        await settled(manager, {1: "END", 2: "END"})
        with pytest.raises(RequestError, match="Latest"), manager.lease("m"):
            pass

    asyncio.run(check())


def test_a_file_system_that_is_away_changes_nothing(folders: Folders, clock: Clock) -> None:
    folders.add("1")

    async def check() -> None:
        manager = manager_of(folders, clock)
        await manager.reconcile()
        folders.base.rename(folders.base.with_name("away"))
        await manager.reconcile()
        assert states(manager) == {1: "AVAILABLE"}

    asyncio.run(check())


def test_a_number_that_comes_back_while_it_is_drained(folders: Folders, clock: Clock) -> None:
    folders.add("1")

    async def check() -> None:
        manager = manager_of(folders, clock)
        await manager.reconcile()
        with manager.lease("m"):
            folders.add("2")
            await manager.reconcile()
            first = folders.models[1]
            folders.remove("2")
            await manager.reconcile()
            assert states(manager)[1] == "AVAILABLE"
            assert folders.models[1] is not first and not first.closed
        async with asyncio.timeout(10):
            while not first.closed:
                await asyncio.sleep(0)
        assert states(manager)[1] == "AVAILABLE"
        assert not folders.models[1].closed

    asyncio.run(check())


def test_labels(folders: Folders, clock: Clock) -> None:
    folders.add("1")
    folders.add("2")

    async def check() -> None:
        manager = manager_of(folders, clock, lambda versions: versions, labels={"stable": 1})
        await manager.reconcile()
        manager.set_labels()
        with manager.lease("m", label="stable") as version:
            assert version.number == 1
        missing = manager_of(folders, clock, labels={"stable": 1})
        await missing.reconcile()
        with pytest.raises(RequestError, match="not currently available") as caught:
            missing.set_labels()
        assert caught.value.code is Code.FAILED_PRECONDITION
        anywhere = manager_of(folders, clock, labels={"stable": 1}, labels_anywhere=True)
        await anywhere.reconcile()
        anywhere.set_labels()
        with pytest.raises(RequestError, match=r"Specific\(m, 1\)"), anywhere.lease("m", label="stable"):
            pass

    asyncio.run(check())


def test_a_new_list_replaces_the_whole_of_the_old(folders: Folders, clock: Clock, tmp_path: Path) -> None:
    folders.add("1")
    other = Folders(tmp_path / "other")
    other.add("5")

    async def check() -> None:
        manager = manager_of(folders, clock)
        await manager.reconcile()
        await manager.apply([ModelConfig("n", other.base, latest(1))])
        with pytest.raises(RequestError, match="Could not find any versions of model m"):
            manager.versions("m")
        with manager.lease("n") as version:
            assert version.number == 5
        with pytest.raises(RequestError, match="did not become available: bad"):
            await manager.apply([ModelConfig("bad", tmp_path / "nowhere", latest(1))])
        await manager.close()
        assert all(model.closed for model in folders.models.values())

    asyncio.run(check())


def test_a_model_that_is_removed_while_it_loads(folders: Folders, clock: Clock) -> None:
    folders.add("1")
    loading, removed = threading.Event(), threading.Event()

    def hold() -> None:
        loading.set()
        assert removed.wait(10)

    async def check() -> None:
        folders.on_load = hold
        manager = manager_of(folders, clock)
        round_ = asyncio.create_task(manager.reconcile())
        await asyncio.to_thread(loading.wait, 10)
        await manager.apply([])
        removed.set()
        async with asyncio.timeout(10):
            await round_
            while not folders.models[1].closed:
                await asyncio.sleep(0)
        assert not manager.knows("m")

    asyncio.run(check())


def test_closing_waits_for_the_last_request(folders: Folders, clock: Clock) -> None:
    folders.add("1")

    async def check() -> None:
        manager = manager_of(folders, clock)
        await manager.reconcile()
        with manager.lease("m"):
            closing = asyncio.create_task(manager.close())
            await asyncio.sleep(0)
            assert not folders.models[1].closed
        await closing
        assert folders.models[1].closed

    asyncio.run(check())
