"""Which version is in service, and how that is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import PushError
from components.serving_pusher import root as serving_root
from components.serving_pusher.root import Change, Withdrawal

ROLLBACK = Withdrawal("rollback", "slow", 5.0)
WRONG = Withdrawal("canary", "answers wrongly", 6.0)


@pytest.fixture
def root(tmp_path) -> Path:
    for number in (1, 2, 3, 5):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "saved_model.pb").write_text(str(number))
    return tmp_path


def test_an_older_version_goes_in_service_and_nothing_is_lost(root) -> None:
    change = serving_root.put_in_service(root, 2, ROLLBACK)
    assert change == Change(before=5, after=2, withdrawn=[3, 5], restored=[])
    assert serving_root.versions(root) == [1, 2]
    assert serving_root.withdrawals(root) == {3: ROLLBACK, 5: ROLLBACK}
    folder = serving_root.folder_of(root, 5)
    assert folder is not None and (folder / "saved_model.pb").read_text() == "5"


def test_tritons_configuration_is_that_of_the_version_in_service(root) -> None:
    for number in serving_root.versions(root):
        (root / str(number) / "config.pbtxt").write_text(f"# {number}")
    for target in (2, 1, 5, 3):
        serving_root.put_in_service(root, target, ROLLBACK)
        assert (root / "config.pbtxt").read_text() == f"# {target}"
    serving_root.withdraw(root, 3, WRONG)
    assert (root / "config.pbtxt").read_text() == "# 2"


def test_a_configuration_of_the_users_own_is_left_alone(root) -> None:
    (root / "config.pbtxt").write_text("own")
    serving_root.put_in_service(root, 1, ROLLBACK)
    assert (root / "config.pbtxt").read_text() == "own"


def test_rolling_forward_undoes_all_rollbacks_below_it(root) -> None:
    serving_root.put_in_service(root, 3, ROLLBACK)
    serving_root.put_in_service(root, 1, ROLLBACK)
    assert serving_root.versions(root) == [1]
    assert serving_root.put_in_service(root, 5, ROLLBACK) == Change(1, 5, [], [2, 3, 5])
    assert serving_root.versions(root) == [1, 2, 3, 5]
    assert serving_root.withdrawals(root) == {}


def test_a_version_that_answered_wrongly_comes_back_only_by_name(root) -> None:
    serving_root.withdraw(root, 3, WRONG)
    serving_root.put_in_service(root, 2, ROLLBACK)
    serving_root.put_in_service(root, 5, ROLLBACK)
    assert serving_root.versions(root) == [1, 2, 5]
    serving_root.put_in_service(root, 3, ROLLBACK)
    assert serving_root.versions(root) == [1, 2, 3]


def test_the_order_of_moves_never_shows_another_version_at_the_top(root, monkeypatch) -> None:
    tops = []
    flush = serving_root.flush_folder
    monkeypatch.setattr(
        serving_root,
        "flush_folder",
        lambda folder: (tops.append(serving_root.in_service(root)), flush(folder)),
    )
    serving_root.put_in_service(root, 1, ROLLBACK)
    serving_root.put_in_service(root, 3, ROLLBACK)
    serving_root.put_in_service(root, 5, ROLLBACK)
    assert [top for top, before in zip(tops, [None, *tops], strict=False) if top != before] == [5, 1, 3, 5]


def test_changes_are_announced_before_anything_moves(root) -> None:
    announced: list[tuple[Change, list[int]]] = []

    def note(change: Change) -> None:
        announced.append((change, serving_root.versions(root)))

    serving_root.put_in_service(root, 3, ROLLBACK, note)
    serving_root.put_in_service(root, 3, ROLLBACK, note)
    assert announced == [(Change(5, 3, [5], []), [1, 2, 3, 5])]


def test_what_is_in_service_is_never_removed(root) -> None:
    serving_root.put_in_service(root, 3, ROLLBACK)
    assert serving_root.remove(root, [1, 3, 4, 5]) == [1, 5]
    assert serving_root.versions(root) == [2, 3]
    assert serving_root.withdrawals(root) == {}
    assert serving_root.highest(root) == 5  # so that 5 is not given again
    assert sorted(path.name for path in (root / ".withdrawn").iterdir()) == []


def test_unknown_versions(root) -> None:
    with pytest.raises(PushError, match="There is no version 4") as caught:
        serving_root.put_in_service(root, 4, ROLLBACK)
    assert caught.value.remedy == "Known: 1, 2, 3, 5."
    with pytest.raises(PushError, match="There is no version 9"):
        serving_root.withdraw(root, 9, WRONG)
    assert serving_root.versions(root) == [1, 2, 3, 5]


def test_a_version_that_was_moved_by_hand_has_a_reason_too(root) -> None:
    (root / ".withdrawn").mkdir()
    (root / "5").rename(root / ".withdrawn" / "5")
    assert serving_root.withdrawals(root)[5].reason == "moved aside by hand"
    assert serving_root.in_service(root) == 3


def test_an_empty_root(tmp_path) -> None:
    assert serving_root.in_service(tmp_path / "none") is None
    assert serving_root.withdrawals(tmp_path / "none") == {}
