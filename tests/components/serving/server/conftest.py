"""Models are made once for all tests; one server answers those that change nothing."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.components.serving.server import models
from tests.components.serving.server.running_server import ROOT, Clients, in_thread

_BODY_LIMIT = 1 << 20


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of models: half (versions 1 and 2), kinds and classes."""
    root = tmp_path_factory.mktemp("models")
    models.half_plus_two(root / "half" / "1")
    models.half_plus_two(root / "half" / "00000002", bias=3.0)
    models.kinds(root / "kinds" / "7")
    models.classes(root / "classes" / "1")
    # As in the server's own process, where what was imported is not walked by each collection.
    gc.freeze()
    return root


@pytest.fixture(scope="session")
def server(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """Serves all made models, both versions of half, with labels and metrics."""
    config = tmp_path_factory.mktemp("config") / "models.config"
    config.write_text(
        f"""model_config_list {{
          config {{
            name: "half" base_path: "{made / "half"}" model_platform: "tensorflow"
            model_version_policy {{ all {{}} }}
            version_labels {{ key: "stable" value: 1 }}
            version_labels {{ key: "canary" value: 2 }}
          }}
          config {{ name: "kinds" base_path: "{made / "kinds"}" model_platform: "tensorflow" }}
          config {{ name: "classes" base_path: "{made / "classes"}" model_platform: "tensorflow" }}
        }}"""
    )
    with in_thread(
        model_config_file=str(config),
        enable_metrics=True,
        rest_api_enable_cors_support=True,
        max_request_bytes=_BODY_LIMIT,
    ) as clients:
        yield clients


@pytest.fixture(scope="session")
def their_models() -> Path:
    """TensorFlow Serving's own test models."""
    data = os.environ.get("HEADRACE_TEST_DATA", ROOT.parent / "shared" / "data")
    folder = Path(data, "saved_models")
    if not folder.is_dir():
        pytest.skip(
            "TensorFlow Serving's test models are not here; HEADRACE_TEST_DATA names their parent folder"
        )
    return folder
