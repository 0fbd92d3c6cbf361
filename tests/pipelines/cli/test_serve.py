"""headrace serve: flags under both names, and the user's mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.serving.server import __main__ as server_main
from components.serving.server.options import Options
from pipelines.cli.main import main


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """The options of each server that would have been started."""
    found: list[Options] = []
    monkeypatch.setattr(server_main, "run", found.append)
    return found


def headrace(*arguments: str) -> int:
    # TensorFlow may be loaded already, and the command then ends the process at once.
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("pipelines.cli.main._exit", _raise_exit)
        main(["serve", *arguments])
    return int(ended.value.code or 0)


def _raise_exit(code: int) -> Any:
    raise SystemExit(code)


def test_flags_have_their_own_and_short_names(started: list[Options]) -> None:
    assert headrace("--model-root", "/m", "--rest-port", "1", "--enable_batching", "--port", "2") == 0
    assert headrace("--model_root=/m", "--rest_api_port=1", "--enable_batching=true", "--port=2") == 0
    assert started == [Options(model_root="/m", rest_api_port=1, enable_batching=True, port=2)] * 2
    assert headrace("--config=/c", "--enable_model_warmup=false") == 0
    assert started[2] == Options(model_config_file="/c", enable_model_warmup=False)


def test_the_workspace_is_served_by_default(started: list[Options], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_WORKSPACE", "/somewhere")
    assert headrace() == 0
    assert started == [Options(model_root="/somewhere/serving")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model-root=/m", "--config=/c"], "exactly one of"),
        (["--model-root=/m", "--port=-3"], "port=-3"),
        (["--model-root=/m", "--enable_batching=perhaps"], "Expected true or false"),
        (["--model-root=/m", "--port=many"], "not a valid integer"),
    ],
)
def test_flags_that_cannot_be(
    started: list[Options], arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headrace(*arguments) == 2
    assert message in capsys.readouterr().err
    assert started == []


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert headrace("--model-root", str(tmp_path / "none")) == 2
    error = capsys.readouterr().err
    assert "There is no such folder of models" in error
    assert str(tmp_path / "none") in error
