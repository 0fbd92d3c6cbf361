"""Names that the inside and the outside of a container agree on."""

from __future__ import annotations

FACTS = "headrace_facts"
"""Metadata of what a node made: JSON of what it did and cost. Imported copies have none."""

SQLITE = "HEADRACE_METADATA_SQLITE"
"""Environment variable with the metadata store's file, where there is no cluster to ask."""

HOST, PORT = "METADATA_GRPC_SERVICE_HOST", "METADATA_GRPC_SERVICE_PORT"
"""Environment variables with which Kubeflow tells a container where its metadata store is."""
