"""Beginning with an earlier model's weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from modules import contract
from modules.errors import TrainingError
from modules.training import warm
from tests.modules.training import small


def saved(folder: Path, *, norm: bool = False) -> tuple[object, str]:
    """A trained model, and the folder that TFX would name."""
    model, _ = small.fit(small.hparams(), norm=norm)
    path = folder / contract.KERAS_MODEL
    path.parent.mkdir(parents=True)
    model.save(path)
    return model, str(folder / "Format-Serving")


def test_all_weights_are_taken_over(tmp_path: Path) -> None:
    earlier, folder = saved(tmp_path, norm=True)
    model = small.model(norm=True)
    warm.load(model, folder)
    for one, other in zip(model.variables, earlier.variables, strict=True):  # type: ignore[attr-defined]
        assert (one.numpy() == other.numpy()).all()


def test_another_network_is_refused_with_the_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, folder = saved(tmp_path)
    monkeypatch.setattr(small, "CLASSES", 4)
    with pytest.raises(TrainingError, match=r"scores/kernel has shape \(4, 4\) here and \(4, 3\) there"):
        warm.load(small.model(), folder)
    with pytest.raises(TrainingError, match="does not fit this one"):
        warm.load(small.model(norm=True), folder)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="cannot be read") as caught:
        warm.load(small.model(), str(tmp_path / "Format-Serving"))
    assert caught.value.place.endswith(contract.KERAS_MODEL)
