"""What lies under an experiment's data path: looked at when it is asked for, and once.

present = Present(experiment)
present.spans                   # [(20530, 0), (20531, 0)]; none where the path names no spans
present.state([20531])          # changes with the files
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from pipelines import remote, spans
from pipelines.config import Experiment
from pipelines.retraining.policy import Span
from pipelines.spans import SpanFile


class Present:
    """Files of an experiment's data."""

    def __init__(self, experiment: Experiment) -> None:
        path = experiment.data.path
        self.pattern = remote.expanded(path) if path else ""
        self.has_spans = spans.has_spans(self.pattern)
        self._states: dict[tuple[int, ...], str] = {}

    @cached_property
    def files(self) -> list[SpanFile]:
        """Files and folders; of data without spans, all are of span 0.

        Raises:
            ConfigError, InputError: see `spans.find`.
        """
        if self.has_spans:
            return spans.find(self.pattern)
        return [SpanFile(0, 0, path) for path in _matching(self.pattern)]

    @cached_property
    def spans(self) -> list[Span]:
        """Spans and versions, ascending."""
        return sorted({(item.span, item.version) for item in self.files}) if self.has_spans else []

    def state(self, numbers: Sequence[int] = ()) -> str:
        """The state of the files of some spans, or of all where none is named; see `spans.state_of`.

        Raises:
            InputError: what lies elsewhere cannot be looked at.
        """
        key = tuple(sorted(numbers))
        if key not in self._states:
            self._states[key] = spans.state_of([item for item in self.files if not key or item.span in key])
        return self._states[key]


def _matching(path: str) -> list[str]:
    if remote.is_remote(path):
        return remote.listed(path) if glob.has_magic(path) else [path]
    if not path or Path(path).exists():
        return [path] if path else []
    return sorted(glob.glob(path, recursive=True))
