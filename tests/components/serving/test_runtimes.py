"""Loading servables: what goes wrong has a name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from components.errors import ServableError
from components.rewriter.base import TrainedModel
from components.rewriter.techniques import BUILDS
from components.serving import runtimes
from components.serving.servable import Servable, Signature, version_folder


@pytest.fixture
def servable(model_uri, contract, tmp_path):
    trained = TrainedModel(str(model_uri), contract)
    BUILDS["identity"](trained, version_folder(tmp_path))
    trained.servable("identity").write(tmp_path)
    return tmp_path


def test_the_manifest_survives_writing(servable) -> None:
    manifest = Servable.read(servable)
    assert manifest.class_names == ("cat", "dog", "owl")
    assert manifest.signatures[0] == Signature("serving_default", "examples")


def test_batches_of_any_size_give_the_same_scores(servable, records) -> None:
    runtime = runtimes.load(servable)
    whole = runtimes.predict_in_batches(runtime, records, batch_size=60)
    parts = runtimes.predict_in_batches(runtime, records, batch_size=7)
    np.testing.assert_allclose(whole, parts, atol=1e-6)
    assert runtimes.predict_in_batches(runtime, []).shape == (0, 3)


def test_a_missing_manifest(tmp_path) -> None:
    with pytest.raises(ServableError, match="manifest cannot be read"):
        runtimes.load(tmp_path)


def test_an_unknown_runtime(servable) -> None:
    replace(Servable.read(servable), runtime="abacus").write(servable)
    with pytest.raises(
        ServableError, match="no runtime 'abacus'; known: litert, onnxruntime, saved_model, tensorrt"
    ):
        runtimes.load(servable)


def test_a_damaged_model(servable) -> None:
    path = version_folder(servable) / "saved_model.pb"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ServableError, match="does not load"):
        runtimes.load(servable)


def test_a_missing_signature(servable) -> None:
    manifest = Servable.read(servable)
    replace(manifest, signatures=(Signature("predict_sound", "sound"),)).write(servable)
    with pytest.raises(ServableError, match="lacks the signature 'predict_sound'"):
        runtimes.load(servable)
