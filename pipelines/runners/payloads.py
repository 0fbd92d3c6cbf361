"""What outputs hold when they are published, and whether they still do.

    output = seal(execution_info, output)       # before publishing: adds digests
    verify(artifact)                            # raises where the files are not those

The digest is a property of the artifact, written with it in one transaction.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines import digests

PROPERTY = "payload_sha256"
"""SHA-256 over names and contents of an output's files; see `digests.of_tree`."""


class DamagedError(RuntimeError):
    """An output that is not what was published; TFX's look-up passes over it."""


def seal(output: Any) -> Any:
    """Adds the digest of its files to each artifact of an ExecutorOutput; returns it."""
    for artifacts in output.output_artifacts.values():
        for artifact in artifacts.artifacts:
            digest = digests.of_tree(Path(artifact.uri))
            artifact.custom_properties[PROPERTY].string_value = digest
    return output


def verify(artifact: Any) -> None:
    """Reads an output's files, or their time stamps where those are remembered.

    Raises:
        DamagedError: files are missing, truncated, changed or added, or there is no digest.
    """
    expected = artifact.get_string_custom_property(PROPERTY)
    try:
        found = digests.of_tree(Path(artifact.uri))
    except OSError as error:
        raise DamagedError(f"{artifact.uri}: {error.strerror}") from error
    if found != expected:
        raise DamagedError(f"{artifact.uri}: not what was published")


def sealing(operator: type) -> type:
    """An executor operator that seals what its executors wrote."""

    class Sealing(operator):
        def run_executor(self, *args: Any, **kwargs: Any) -> Any:
            return seal(super().run_executor(*args, **kwargs))

    Sealing.__name__ = operator.__name__
    return Sealing
