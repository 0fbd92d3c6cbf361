"""The `kubeflow:` group of an experiment file: what a cluster is told beside the chain itself.

    kubeflow:
      image: registry.example.com/headrace:1
      volume: {claim: headrace}
      resources: {Trainer: {gpu: 1, gpu_type: nvidia-tesla-a100, cpu: 8, memory: 32Gi}}

Nothing here changes what is computed, so none of it is part of a cache key on
one machine.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pipelines.stage import Stage

EVERY_NODE = "all"
"""Names all nodes, where a setting goes by node."""

Quantity = Annotated[str, Field(pattern=r"^\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$")]
DnsName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]
MountPath = Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._-]+)+$")]


class Resources(Stage):
    """What one node's container gets; what is not given is the cluster's default."""

    cpu: Annotated[float, Field(gt=0, le=1024)] | None = Field(None, description="Cores, asked and limit.")
    memory: Quantity | None = Field(None, description="Such as 32Gi; asked and limit.")
    gpu: Annotated[int, Field(ge=0, le=64)] = Field(0, description="How many.")
    gpu_type: str | None = Field(
        None, description="Such as nvidia-tesla-a100; on kfp the value of the nodes' gpu_label."
    )

    @model_validator(mode="after")
    def _typed_gpus(self) -> Resources:
        if self.gpu_type and not self.gpu:
            raise ValueError("gpu_type is given but gpu is 0; say how many")
        return self


class Volume(Stage):
    """A volume that all nodes mount: serving folders, checkpoints, and data."""

    claim: DnsName | None = Field(
        None,
        description="PersistentVolumeClaim, ReadWriteMany; none on Vertex (path below /gcs).",
    )
    path: MountPath = Field("/headrace", description="Where it is mounted; the workspace of the cluster.")


class Toleration(Stage):
    """A taint that nodes may have nevertheless."""

    key: str
    operator: Literal["Equal", "Exists"] = Field(
        "Exists", description="When not given, Equal where there is a value."
    )
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _equal_to_its_value(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("value") is not None and "operator" not in raw:
            return {**raw, "operator": "Equal"}
        return raw

    @model_validator(mode="after")
    def _as_kubernetes_takes_it(self) -> Toleration:
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("operator Exists takes no value; leave the operator out, or give Equal")
        return self


class Secret(Stage):
    """A Kubernetes secret, as environment variables or as files."""

    name: DnsName
    env: dict[str, str] = Field({}, description="Key of the secret -> environment variable.")
    mount: MountPath | None = Field(None, description="Folder that the secret's keys are files in.")
    nodes: list[str] = Field([], description="The nodes that get it; all when none is named.")

    @model_validator(mode="after")
    def _used(self) -> Secret:
        if not self.env and self.mount is None:
            raise ValueError("a secret needs env or mount")
        return self


class Retries(Stage):
    """How often a failed container is started again, and after what time."""

    count: Annotated[int, Field(ge=0, le=10)] = Field(1, description="Beside the first try.")
    backoff_s: Annotated[int, Field(ge=0)] = Field(30, description="Before the first retry.")
    factor: Annotated[int, Field(ge=1, le=10)] = Field(2, description="Of each later wait.")
    within_s: Annotated[int, Field(ge=1)] = Field(
        86400, description="Of the first try's beginning; later than this nothing is started again."
    )


class Notify(Stage):
    """Who is told how a run ended."""

    url: Annotated[str, Field(pattern=r"^https?://\S+$")] = Field(
        description="Gets a POST with JSON: pipeline, state, run, and text, as chat webhooks take it."
    )
    when: Literal["failure", "always"] = "failure"
    timeout_s: Annotated[float, Field(gt=0)] = 30.0


class Kubeflow(Stage):
    """How the chain runs on Kubeflow Pipelines or Vertex."""

    image: str | None = Field(None, description="Of all nodes, as a registry names it; see headrace image.")
    pipeline_root: Annotated[str, Field(pattern=r"^(minio|s3|gs)://[^/\s]+(/\S*)?$")] | None = Field(
        None, description="Object store for artifacts; the cluster's default when not given."
    )
    volume: Volume | None = None
    resources: dict[str, Resources] = Field({}, description="By node, or `all`.")
    gpu_resource: str = Field("nvidia.com/gpu", description="Kubernetes' name of a GPU.")
    gpu_label: str = Field(
        "cloud.google.com/gke-accelerator", description="Node label that tells a GPU's type."
    )
    node_selector: dict[str, dict[str, str]] = Field({}, description="By node, or `all`: labels.")
    tolerations: dict[str, list[Toleration]] = Field({}, description="By node, or `all`.")
    secrets: list[Secret] = []
    retries: Retries = Retries()
    timeout_minutes: dict[str, Annotated[float, Field(gt=0)]] = Field({}, description="By node, or `all`.")
    no_cache: list[str] = Field([], description="Nodes that run in every run.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    notify: Notify | None = None
