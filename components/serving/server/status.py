"""Errors as clients see them: a gRPC code and a message, and their HTTP status.

raise invalid("Missing named input: x in 'inputs' object.")
"""

from __future__ import annotations

import grpc
import tensorflow as tf

from components.errors import UserError

Code = grpc.StatusCode

HTTP_STATUS: dict[grpc.StatusCode, int] = {
    Code.INVALID_ARGUMENT: 400,
    Code.FAILED_PRECONDITION: 400,
    Code.OUT_OF_RANGE: 400,
    Code.UNAUTHENTICATED: 401,
    Code.PERMISSION_DENIED: 403,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.ABORTED: 409,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.CANCELLED: 499,
    Code.UNIMPLEMENTED: 501,
    Code.UNAVAILABLE: 503,
    Code.DEADLINE_EXCEEDED: 504,
}
"""TensorFlow Serving's table; codes that are not listed are 500."""

_BY_NUMBER = {code.value[0]: code for code in Code}


class RequestError(Exception):
    """An error that a client is told.

    Attributes:
        code: the gRPC status code.
        message: what the client reads.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def http_status(self) -> int:
        return HTTP_STATUS.get(self.code, 500)

    @property
    def number(self) -> int:
        """The code as a number, as `StatusProto.error_code` holds it."""
        return int(self.code.value[0])


def invalid(message: str) -> RequestError:
    """An INVALID_ARGUMENT error."""
    return RequestError(Code.INVALID_ARGUMENT, message)


def as_request_error(error: BaseException) -> RequestError:
    """What a client is told of an exception that a model's run or load raised."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, tf.errors.OpError):
        return RequestError(_BY_NUMBER.get(error.error_code, Code.UNKNOWN), error.message)
    if isinstance(error, MemoryError):
        return RequestError(Code.RESOURCE_EXHAUSTED, "Out of memory")
    if isinstance(error, (ValueError, TypeError)):
        return invalid(str(error))
    if isinstance(error, OSError):
        return RequestError(Code.NOT_FOUND, str(error))
    if isinstance(error, UserError):
        return RequestError(Code.FAILED_PRECONDITION, str(error))
    return RequestError(Code.INTERNAL, f"{type(error).__name__}: {error}")
