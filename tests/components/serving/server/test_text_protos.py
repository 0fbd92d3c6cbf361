"""models.config, batching parameters and monitoring config, as text protobufs."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ServableError
from components.serving.server import options, text_protos
from components.serving.server.options import Options
from components.serving.server.status import RequestError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config"
    path.write_text(text)
    return path


def models(tmp_path: Path, text: str) -> list[text_protos.ModelConfig]:
    return text_protos.read_models(written(tmp_path, f"model_config_list {{ {text} }}"))


def test_models_with_policies_and_labels(tmp_path: Path) -> None:
    found = models(
        tmp_path,
        """
        config { name: "a" base_path: "/m/a" model_platform: "tensorflow" }
        config { name: "b" base_path: "/m/b" model_type: TENSORFLOW
                 model_version_policy { latest { num_versions: 2 } } }
        config { name: "c" base_path: "/m/c" model_platform: "tensorflow" model_version_policy { all {} } }
        config { name: "d" base_path: "/m/d" model_platform: "tensorflow"
                 model_version_policy { specific { versions: 1 versions: 3 } }
                 version_labels { key: "stable" value: 3 } }
        """,
    )
    assert [config.choose([1, 2, 3, 4]) for config in found] == [[4], [3, 4], [1, 2, 3, 4], [1, 3]]
    assert found[3].labels == {"stable": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('config { name: "a" base_path: "/m" model_platform: "tensorflow" } ' * 2, "multiple times"),
        ('config { base_path: "/m" model_platform: "tensorflow" }', "without a name"),
        ('config { name: "a" base_path: "m" model_platform: "tensorflow" }', "absolute path"),
        ('config { name: "a" base_path: "/m" model_platform: "pytorch" }', "model_platform"),
        ('config { name: "a" base_path: "/m" }', "model_platform"),
    ],
)
def test_models_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        models(tmp_path, text)
    assert caught.value.http_status == 400


def test_files_that_are_no_text_protobuf(tmp_path: Path) -> None:
    with pytest.raises(ServableError, match="ModelServerConfig"):
        models(tmp_path, "config { nam")
    with pytest.raises(ServableError, match="cannot be read"):
        text_protos.read_models(tmp_path / "none")


def test_batching_parameters(tmp_path: Path) -> None:
    text = """
    max_batch_size { value: 32 }
    batch_timeout_micros { value: 1500 }
    max_enqueued_batches { value: 7 }
    num_batch_threads { value: 3 }
    thread_pool_name { value: "pool" }
    allowed_batch_sizes: 8
    allowed_batch_sizes: 32
    """
    found = text_protos.read_batching(written(tmp_path, text))
    assert found == text_protos.BatchingParameters(32, 1500, 7, 3, (8, 32))
    assert text_protos.read_batching(written(tmp_path, "")).max_batch_size == 1000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batch_size { value: 0 }", "max_batch_size must be at least 1"),
        ("batch_timeout_micros { value: -1 }", "cannot be negative"),
        ("max_batch_size { value: 32 } allowed_batch_sizes: 8", "end with max_batch_size"),
        ("max_batch_size { value: 8 } allowed_batch_sizes: 9 allowed_batch_sizes: 8", "must ascend"),
        ("pad_variable_length_inputs: true", "not supported"),
        ("max_batch: 3", "BatchingParameters"),
    ],
)
def test_batching_parameters_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ServableError, match=message):
        text_protos.read_batching(written(tmp_path, text))


def test_monitoring_config(tmp_path: Path) -> None:
    path = written(tmp_path, "prometheus_config { enable: true }")
    assert text_protos.read_metrics_path(path) == "/monitoring/prometheus/metrics"
    path = written(tmp_path, 'prometheus_config { enable: true path: "/metrics" }')
    assert text_protos.read_metrics_path(path) == "/metrics"
    assert text_protos.read_metrics_path(written(tmp_path, "")) is None


def test_flags() -> None:
    parsed = options.parse(
        ["--model_base_path=/m", "--enable_batching", "--port=1", "--prefer_tflite_model=true"]
    )
    assert (parsed.enable_batching, parsed.port, parsed.prefer_tflite_model) == (True, 1, True)
    assert parsed.model_name == "default"
    assert options.parse(["--model_root=/m", "--enable_model_warmup=false"]).enable_model_warmup is False


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--model_root=/m", "--model_base_path=/n"],
        ["--model_root=/m", "--port=-1"],
        ["--model_root=/m", "--port=1", "--rest_api_port=1"],
        ["--model_root=/m", "--batching_parameters_file=x"],
        ["--model_root=/m", "--enable_batching=perhaps"],
        ["--model_root=/m", "--max_request_bytes=0"],
        ["--model_root=/m", "--no_such_flag"],
    ],
)
def test_flags_that_cannot_be(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        options.parse(flags)
    assert caught.value.code == 2
    assert capsys.readouterr().err


def test_values_are_named() -> None:
    with pytest.raises(ValueError, match="max_num_load_retries=-2"):
        Options(model_root="/m", max_num_load_retries=-2)
