"""What file systems elsewhere raise, as errors that say what to do.

    with failures_named("s3://bucket/photos"):
        files.ls(...)

Each client has a tree of exceptions of its own; they are told apart by the
names of their classes, so that no client need be installed.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from components.example_gen.origins import without_secrets
from pipelines.errors import InputError, nearest

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "http": "http", "https": "http"}
"""Scheme -> the extra that reads it."""

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
    "for public buckets FSSPEC_S3_ANON=true",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS; for public buckets FSSPEC_GS_TOKEN=anon",
}


class UnreachableError(InputError):
    """What lies elsewhere, and may be there again in a moment."""


@contextlib.contextmanager
def failures_named(url: str) -> Iterator[None]:
    """Turns what file systems raise into errors that say what to do."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # each client has a tree of its own
        raise _named(url, error) from error


def _named(url: str, error: Exception) -> InputError:
    scheme, place = url.partition("://")[0].lower(), without_secrets(url)
    said = " ".join(str(error).split()) or type(error).__name__
    kinds = {kind.__name__ for item in _chain(error) for kind in type(item).__mro__}
    codes = {getattr(item, "status", None) or getattr(item, "code", None) for item in _chain(error)}
    if isinstance(error, ImportError):
        extra = EXTRAS.get(scheme)
        remedy = f"pip install headrace[{extra}]" if extra else f"Install it: {said}"
        return InputError(
            f"Reading {scheme}:// needs a package that is not installed", place=place, remedy=remedy
        )
    if isinstance(error, ValueError) and "rotocol not known" in said:
        return InputError(f"There is no file system {scheme}://", place=place, remedy=nearest(scheme, EXTRAS))
    if kinds & _FORBIDDEN or codes & {401, 403}:
        names = _CREDENTIALS.get({"gcs": "gs", "s3a": "s3"}.get(scheme, scheme), "")
        return InputError(
            f"It may not be read with the environment's credentials: {said}",
            place=place,
            remedy=f"Set {names}." if names else "Use an address that may be read.",
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return InputError("The disk has no room for a copy of the data", place=place, remedy="Make room.")
    if kinds & _UNREACHABLE:
        return UnreachableError(
            f"It cannot be reached: {said}",
            place=place,
            remedy="Check the address and the network, and try again.",
        )
    if "FileNotFoundError" in kinds or 404 in codes:
        return InputError(
            f"Nothing is there that can be used: {said}",
            place=place,
            remedy="Check the address and its bucket.",
        )
    return InputError(f"It cannot be read: {said}", place=place, remedy="Check the address.")


_FORBIDDEN = {"PermissionError", "NoCredentialsError", "DefaultCredentialsError", "RefreshError"}
_UNREACHABLE = {
    "ConnectionError", "TimeoutError", "EndpointConnectionError", "ClientConnectionError", "HTTPClientError",
    "gaierror", "ConnectTimeoutError", "TransportError",
}  # fmt: skip
"""Names of classes: the packages they are of need not be installed."""


def _chain(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__
