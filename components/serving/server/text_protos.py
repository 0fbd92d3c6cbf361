"""Reads the server's text protobufs: models, batching parameters, monitoring.

    models = read_models(Path("models.config"))
    batching = read_batching(Path("batching.config"))

The client package carries the first message only; the other two are described here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2
from tensorflow_serving.config import model_server_config_pb2

from components.errors import ServableError
from components.serving.server.status import invalid

METRICS_PATH = "/monitoring/prometheus/metrics"
_PLATFORM = "tensorflow"


@dataclass(frozen=True)
class ModelConfig:
    """One model to serve.

    Attributes:
        name: what requests name.
        base_path: the folder that holds its version folders.
        choose: all version numbers, ascending -> those to serve.
        labels: label -> version number.
    """

    name: str
    base_path: Path
    choose: Callable[[list[int]], list[int]]
    labels: Mapping[str, int] = field(default_factory=dict)


def latest(count: int) -> Callable[[list[int]], list[int]]:
    """The policy that serves the `count` highest versions."""
    return lambda versions: versions[-count:]


def _policy(message: Any) -> Callable[[list[int]], list[int]]:
    choice = message.WhichOneof("policy_choice")
    if choice == "all":
        return lambda versions: versions
    if choice == "specific":
        wanted = set(message.specific.versions)
        return lambda versions: [version for version in versions if version in wanted]
    return latest(max(1, message.latest.num_versions))


def models_of(message: Any) -> list[ModelConfig]:
    """Checks a ModelServerConfig.

    Raises:
        RequestError: INVALID_ARGUMENT, in TensorFlow Serving's words.
    """
    if message.WhichOneof("config") not in ("model_config_list", None):
        raise invalid("ServerModelConfig type not supported. Only ModelConfigList is currently supported")
    listed = list(message.model_config_list.config)
    names = [config.name for config in listed]
    for config in listed:
        if not config.name or names.count(config.name) > 1:
            raise invalid(f"Illegal to list model {config.name!r} multiple times, or without a name")
        if not Path(config.base_path).is_absolute():
            raise invalid(
                f"Expected model {config.name} to have an absolute path. Received: {config.base_path!r}"
            )
        if (config.model_platform or _legacy_platform(config)) != _PLATFORM:
            raise invalid(
                f"Model {config.name}: only model_platform {_PLATFORM!r} can be served, and none cannot be "
                f"changed to another. Received: {config.model_platform!r}"
            )
    return [
        ModelConfig(
            config.name,
            Path(config.base_path),
            _policy(config.model_version_policy),
            dict(config.version_labels),
        )
        for config in listed
    ]


def _legacy_platform(config: Any) -> str:
    return _PLATFORM if config.model_type == model_server_config_pb2.TENSORFLOW else ""


def read_models(path: Path) -> list[ModelConfig]:
    """The models of a `models.config`.

    Raises:
        ServableError: the file cannot be read or parsed.
        RequestError: it names models that cannot be.
    """
    return models_of(_read(path, model_server_config_pb2.ModelServerConfig()))


@dataclass(frozen=True)
class BatchingParameters:
    """How requests are put together; names and defaults are TensorFlow Serving's.

    Attributes:
        max_batch_size: rows of a batch at most; larger requests are refused.
        batch_timeout_micros: how long a batch that is not full waits for more.
        max_enqueued_batches: full batches that may wait; requests beyond are refused.
        num_batch_threads: batches that run at a time.
        allowed_batch_sizes: ascending; batches are padded to one of them.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    allowed_batch_sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError, naming field and value, where a value cannot be."""
        for name in ("max_batch_size", "max_enqueued_batches", "num_batch_threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1. Received: {name}={getattr(self, name)}")
        if self.batch_timeout_micros < 0:
            raise ValueError(
                f"batch_timeout_micros cannot be negative. Received: {self.batch_timeout_micros}"
            )
        sizes = self.allowed_batch_sizes
        if sizes and (list(sizes) != sorted(set(sizes)) or sizes[0] < 1 or sizes[-1] != self.max_batch_size):
            raise ValueError(
                f"allowed_batch_sizes must ascend and end with max_batch_size ({self.max_batch_size}). "
                f"Received: {list(sizes)}"
            )


def read_batching(path: Path) -> BatchingParameters:
    """The parameters in a file; what it leaves out has its default.

    Raises:
        ServableError: the file cannot be read, or its values cannot be.
    """
    message = _read(path, _message("BatchingParameters"))
    if message.pad_variable_length_inputs:
        raise ServableError(
            "pad_variable_length_inputs is not supported: inputs of other shapes form batches of their own",
            place=str(path),
            remedy="Take the line out.",
        )
    given = {name: getattr(message, name).value for name in _WRAPPED if message.HasField(name)}
    try:
        return BatchingParameters(**given, allowed_batch_sizes=tuple(message.allowed_batch_sizes))
    except ValueError as error:
        raise ServableError(str(error), place=str(path), remedy="Correct the file.") from error


def read_metrics_path(path: Path) -> str | None:
    """Where a MonitoringConfig wants metrics served; None where it does not enable them.

    Raises:
        ServableError: the file cannot be read or parsed.
    """
    config = _read(path, _message("MonitoringConfig")).prometheus_config
    return (config.path or METRICS_PATH) if config.enable else None


def _read(path: Path, message: Any) -> Any:
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), message)
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise ServableError(
            f"A configuration file cannot be read as {type(message).__name__}: {error}",
            place=str(path),
            remedy="Correct the file.",
        ) from error


_WRAPPED = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
_INT64 = ".google.protobuf.Int64Value"
_MESSAGES: dict[str, list[tuple[str, int, str]]] = {
    "BatchingParameters": [
        *((name, number, _INT64) for number, name in enumerate(_WRAPPED, 1)),
        ("thread_pool_name", 5, ".google.protobuf.StringValue"),
        ("allowed_batch_sizes", 6, "repeated int64"),
        ("pad_variable_length_inputs", 7, "bool"),
    ],
    "PrometheusConfig": [("enable", 1, "bool"), ("path", 2, "string")],
    "MonitoringConfig": [("prometheus_config", 1, ".headrace.PrometheusConfig")],
}
"""Message -> (field, number, type)."""


def _message(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="headrace.proto", package="headrace", syntax="proto3", dependency=[wrappers_pb2.DESCRIPTOR.name]
    )
    for message, listed in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for field_name, number, kind in listed:
            described.field.append(_field(field_name, number, kind))
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"headrace.{name}"))()


def _field(name: str, number: int, kind: str) -> Any:
    field_type = descriptor_pb2.FieldDescriptorProto
    label = field_type.LABEL_REPEATED if kind.startswith("repeated ") else field_type.LABEL_OPTIONAL
    described = field_type(name=name, number=number, label=label)
    if kind.startswith("."):
        described.type, described.type_name = field_type.TYPE_MESSAGE, kind
    else:
        scalar = kind.removeprefix("repeated ").upper()
        described.type = getattr(field_type, f"TYPE_{scalar}")
    return described
