"""What the server can be told: one dataclass, whose fields are the flags.

    options = parse(["--model_name=digits", "--model_base_path=serving/digits"])

Names are TensorFlow Serving's where it has the flag. Standard library only, so
that a command line can list the flags without importing TensorFlow.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any


def _flag(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Options:
    """The server's flags. Exactly one of the three model sources is to be given."""

    model_root: str = _flag(
        "", "Folder of models: every sub-folder with version folders is served by its name."
    )
    model_config_file: str = _flag("", "Text protobuf (ModelServerConfig) that lists the models.")
    model_base_path: str = _flag("", "Folder with the version folders of one model.")
    model_name: str = _flag("default", "Name of the model in model_base_path.")
    model_config_file_poll_wait_seconds: float = _flag(
        0.0, "Read model_config_file again so often; 0: never."
    )
    file_system_poll_wait_seconds: float = _flag(1.0, "Look for new versions so often; 0: only at the start.")
    host: str = _flag("127.0.0.1", "Address to listen on; 0.0.0.0 lets other machines in.")
    port: int = _flag(8500, "gRPC port; 0: no gRPC.")
    rest_api_port: int = _flag(8501, "REST port; 0: no REST.")
    rest_api_timeout_in_ms: int = _flag(30_000, "A REST request that takes longer is ended.")
    rest_api_enable_cors_support: bool = _flag(False, "Let browsers call from any origin.")
    max_request_bytes: int = _flag(100 << 20, "Larger request bodies and messages are refused.")
    max_image_pixels: int = _flag(
        100_000_000, "Requests with a larger image are refused before it is decoded; 0: never."
    )
    max_queued_requests: int = _flag(1000, "Requests beyond these, waiting or running, are refused.")
    enable_batching: bool = _flag(False, "Run requests that arrive together as one batch.")
    batching_parameters_file: str = _flag("", "Text protobuf (BatchingParameters); needs enable_batching.")
    tensorflow_session_parallelism: int = _flag(0, "Model runs at a time; 0: one per core.")
    num_load_threads: int = _flag(1, "Versions loaded at a time.")
    max_num_load_retries: int = _flag(5, "Further attempts to load a version that fails.")
    load_retry_interval_micros: int = _flag(60_000_000, "Time between two attempts.")
    enable_model_warmup: bool = _flag(True, "Send assets.extra/tf_serving_warmup_requests before serving.")
    prefer_tflite_model: bool = _flag(False, "Load model.tflite where a version folder has one.")
    saved_model_tags: str = _flag("serve", "Comma-separated tags of the graph to load.")
    allow_version_labels_for_unavailable_models: bool = _flag(
        False, "Accept labels on versions that are not loaded."
    )
    enable_signature_method_name_check: bool = _flag(
        False, "Classify and Regress answer only signatures of that method."
    )
    monitoring_config_file: str = _flag("", "Text protobuf (MonitoringConfig) that enables metrics.")
    enable_metrics: bool = _flag(False, "Metrics without a monitoring_config_file, on the usual path.")
    require_signature: str = _flag("", "PEM file of a public key: only versions that it signed are loaded.")
    prediction_log: str = _flag(
        "", "Folder that takes a sample of predictions, without their inputs; off where not given."
    )
    prediction_log_share: float = _flag(0.1, "Share of requests whose predictions are logged.")
    prediction_log_max_bytes: int = _flag(16 << 20, "Of a model's files there; the oldest lines go.")
    prediction_log_inputs: bool = _flag(False, "Log inputs, too, which may be personal data.")
    log_format: str = _flag("text", "Of the log on standard error: text, or json (an object a line).")
    shutdown_grace_seconds: float = _flag(30.0, "After SIGTERM requests under way have so long to finish.")

    def __post_init__(self) -> None:
        """Raises ValueError, naming flag and value, where a value cannot be."""
        given = [name for name in MODEL_SOURCES if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"Give exactly one of {', '.join(MODEL_SOURCES)}. Received: {given}")
        for item in fields(self):
            value = getattr(self, item.name)
            if kind_of(item) in (int, float) and value < 0:
                raise ValueError(f"{item.name} cannot be negative. Received: {item.name}={value}")
        for name in (
            "max_request_bytes",
            "max_queued_requests",
            "num_load_threads",
            "prediction_log_max_bytes",
            "rest_api_timeout_in_ms",
        ):
            if not getattr(self, name):
                raise ValueError(f"{name} must be at least 1. Received: {name}=0")
        if not 0 < self.prediction_log_share <= 1:
            raise ValueError(
                "prediction_log_share must lie above 0, and at 1 at most. "
                f"Received: prediction_log_share={self.prediction_log_share:g}"
            )
        if self.log_format not in LOG_FORMATS:
            raise ValueError(f"log_format is one of {LOG_FORMATS}. Received: {self.log_format!r}")
        if self.port == self.rest_api_port:
            raise ValueError(f"port and rest_api_port must differ, one not 0. Received: {self.port} for both")
        if self.batching_parameters_file and not self.enable_batching:
            raise ValueError("batching_parameters_file needs enable_batching")
        if self.prediction_log_inputs and not self.prediction_log:
            raise ValueError("prediction_log_inputs needs prediction_log")


LOG_FORMATS = ("text", "json")
MODEL_SOURCES = ("model_root", "model_config_file", "model_base_path")


def kind_of(item: Field[Any]) -> type:
    """The type of a flag's value: str, int, float or bool."""
    return type(item.default)


def to_bool(text: str) -> bool:
    """A flag's truth value as TensorFlow Serving reads it.

    Raises:
        ValueError: the text is neither true nor false.
    """
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in known:
        raise ValueError(f"Expected true or false. Received: {text!r}")
    return known[text.lower()]


def parse(arguments: Sequence[str]) -> Options:
    """Reads flags such as --port=8500; ends the process with code 2 where they are wrong."""
    parser = argparse.ArgumentParser(
        "headrace-server", description="Serves models as TensorFlow Serving does."
    )
    for item in fields(Options):
        _add(parser, item)
    given = parser.parse_args(arguments)
    try:
        return Options(**vars(given))
    except ValueError as error:
        parser.error(str(error))


def _add(parser: argparse.ArgumentParser, item: Field[Any]) -> None:
    settings: dict[str, Any] = {"default": item.default, "help": item.metadata["help"], "type": kind_of(item)}
    if kind_of(item) is bool:
        settings |= {"type": to_bool, "nargs": "?", "const": True}
    parser.add_argument(f"--{item.name}", **settings)
