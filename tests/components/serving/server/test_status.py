"""Codes of errors on both APIs, and the defaults that clients and operators rely on."""

from __future__ import annotations

import pytest
import tensorflow as tf

from components.errors import ServableError
from components.serving.server.options import Options
from components.serving.server.status import Code, RequestError, as_request_error


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.INVALID_ARGUMENT, 400),
        (Code.FAILED_PRECONDITION, 400),
        (Code.OUT_OF_RANGE, 400),
        (Code.NOT_FOUND, 404),
        (Code.ALREADY_EXISTS, 409),
        (Code.ABORTED, 409),
        (Code.RESOURCE_EXHAUSTED, 429),
        (Code.UNIMPLEMENTED, 501),
        (Code.UNAVAILABLE, 503),
        (Code.DEADLINE_EXCEEDED, 504),
        (Code.INTERNAL, 500),
        (Code.UNKNOWN, 500),
    ],
)
def test_http_status_of_codes(code: Code, status: int) -> None:
    assert RequestError(code, "").http_status == status


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (tf.errors.InvalidArgumentError(None, None, "m"), Code.INVALID_ARGUMENT),
        (tf.errors.OutOfRangeError(None, None, "m"), Code.OUT_OF_RANGE),
        (tf.errors.DataLossError(None, None, "m"), Code.DATA_LOSS),
        (tf.errors.UnimplementedError(None, None, "m"), Code.UNIMPLEMENTED),
        (ValueError("m"), Code.INVALID_ARGUMENT),
        (MemoryError(), Code.RESOURCE_EXHAUSTED),
        (FileNotFoundError("m"), Code.NOT_FOUND),
        (ServableError("m"), Code.FAILED_PRECONDITION),
        (KeyError("m"), Code.INTERNAL),
    ],
)
def test_what_clients_are_told_of_exceptions(error: Exception, code: Code) -> None:
    told = as_request_error(error)
    assert told.code is code
    assert told.message


def test_defaults_are_those_of_tensorflow_serving() -> None:
    options = Options(model_base_path="/m")
    assert options.file_system_poll_wait_seconds == 1
    assert (options.max_num_load_retries, options.load_retry_interval_micros) == (5, 60_000_000)
    assert (options.port, options.rest_api_timeout_in_ms) == (8500, 30_000)
    assert options.max_request_bytes == 100 << 20
    assert not options.enable_signature_method_name_check
    # Not theirs: this server is for one machine unless it is told otherwise.
    assert options.host == "127.0.0.1"
