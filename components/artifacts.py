"""Artifact types of our own, beside TFX's standard ones.

A name is `<namespace>.<Title>`, which Kubeflow Pipelines asks of a type that is not its own.
"""

from __future__ import annotations

from tfx.types.artifact import Artifact


class IngestionReport(Artifact):
    """`report.json`: files, and examples per split and label. `files.jsonl`: each file's digest."""

    TYPE_NAME = "headrace.IngestionReport"


class QuarantinedRecords(Artifact):
    """Records that could not be used, with their reasons: `group-*.jsonl`."""

    TYPE_NAME = "headrace.QuarantinedRecords"


class RewriteReport(Artifact):
    """`candidates.json` and `judged.npz`: every candidate's figures, and the chosen one's answers."""

    TYPE_NAME = "headrace.RewriteReport"


class ValidationReport(Artifact):
    """`report.json`: what a gate found."""

    TYPE_NAME = "headrace.ValidationReport"
