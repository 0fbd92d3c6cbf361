"""Resources, retries, secrets and the rest of `kubeflow:` in a compiled pipeline.

platform = apply(spec, settings, target="kfp")      # the second YAML document; {} for none
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from google.protobuf import json_format

from pipelines.errors import ConfigError
from pipelines.kubeflow_stage import EVERY_NODE, Kubeflow, Resources
from pipelines.runners import kfp_corrections as spec_parts

Target = Literal["kfp", "vertex"]
Value = TypeVar("Value")

_GIB = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "": 1}


def apply(spec: dict[str, Any], settings: Kubeflow, target: Target) -> dict[str, Any]:
    """Changes the spec in place; returns the platform spec for Kubernetes.

    Raises:
        ConfigError: a setting names a node that there is not, or that the target has no place for.
    """
    containers = {
        name: task
        for name, task in spec_parts.tasks(spec)
        if "container" in spec_parts.executor_of(spec, task)
    }
    _check_nodes(settings, list(containers))
    if target == "vertex":
        _check_vertex(settings)
    executors = {}
    for name, task in containers.items():
        _task_policies(task, name, settings)
        resources = _resources(_for_node(settings.resources, name), settings, target)
        if resources:
            spec_parts.executor_of(spec, task)["container"]["resources"] = resources
        config = _kubernetes(name, settings) if target == "kfp" else {}
        if config:
            executors[spec_parts.component_of(spec, task)["executorLabel"]] = config
    if not executors:
        return {}
    return {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}


def _check_nodes(settings: Kubeflow, nodes: list[str]) -> None:
    groups = ("resources", "node_selector", "tolerations", "timeout_minutes")
    for group in groups:
        named = [name for name in getattr(settings, group) if name != EVERY_NODE]
        spec_parts.check_names(nodes, named, f"kubeflow.{group}")
    spec_parts.check_names(nodes, settings.no_cache, "kubeflow.no_cache")
    for secret in settings.secrets:
        spec_parts.check_names(nodes, secret.nodes, f"kubeflow.secrets, {secret.name}")


def _check_vertex(settings: Kubeflow) -> None:
    """Vertex has no pods of the user's: what belongs to Kubernetes has no place there."""
    for group in ("node_selector", "tolerations", "secrets", "timeout_minutes", "image_pull_policy"):
        if getattr(settings, group):
            raise ConfigError(
                f"Vertex knows no {group.replace('_', ' ')}; only Kubernetes does",
                place=f"kubeflow.{group}",
                remedy="Remove it, or compile with --target kfp.",
            )


def _for_node(values: Mapping[str, Value], node: str) -> Value | None:
    """The node's own value, or that of all."""
    return values.get(node, values.get(EVERY_NODE))


def _task_policies(task: dict[str, Any], name: str, settings: Kubeflow) -> None:
    retries = settings.retries
    if retries.count:
        task["retryPolicy"] = {
            "maxRetryCount": retries.count,
            "backoffDuration": f"{retries.backoff_s}s",
            "backoffFactor": float(retries.factor),
            # What Argo makes of it: a limit on the time since the first try, not on a wait.
            "backoffMaxDuration": f"{retries.within_s}s",
        }
    if name in settings.no_cache:
        task["cachingOptions"] = {}


def _resources(given: Resources | None, settings: Kubeflow, target: Target) -> dict[str, Any]:
    """KFP's ResourceSpec: quantities as text where it takes them, numbers for Vertex."""
    if given is None:
        return {}
    found: dict[str, Any] = {}
    if target == "vertex":
        if given.cpu:
            found["cpuLimit"] = given.cpu
        if given.memory:
            found["memoryLimit"] = _gigabytes(given.memory)
        if given.gpu:
            kind = (given.gpu_type or "nvidia-tesla-t4").upper().replace("-", "_")
            found["accelerator"] = {"type": kind, "count": str(given.gpu)}
        return found
    if given.cpu:
        found["resourceCpuLimit"] = found["resourceCpuRequest"] = f"{given.cpu:g}"
    if given.memory:
        found["resourceMemoryLimit"] = found["resourceMemoryRequest"] = given.memory
    if given.gpu:
        # A type that is no resource's name would be asked of Kubernetes as one.
        found["accelerator"] = {"resourceType": settings.gpu_resource, "resourceCount": str(given.gpu)}
    return found


def _gigabytes(quantity: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)([A-Za-z]*)", quantity).groups()  # type: ignore[union-attr]
    return round(float(number) * _GIB[unit] / 1e9, 3)


def _kubernetes(name: str, settings: Kubeflow) -> dict[str, Any]:
    """KubernetesExecutorConfig of one node, as JSON."""
    from kfp.kubernetes import kubernetes_executor_config_pb2 as pb

    config = pb.KubernetesExecutorConfig()
    labels = _labels(name, settings)
    if labels:
        config.node_selector.labels.update(labels)
    for toleration in _for_node(settings.tolerations, name) or []:
        config.tolerations.add(**toleration.model_dump(exclude_none=True))
    _secrets(config, name, settings)
    if settings.volume is not None and settings.volume.claim:
        config.pvc_mount.add(constant=settings.volume.claim, mount_path=settings.volume.path)
        config.pvc_mount[-1].pvc_name_parameter.runtime_value.constant.string_value = settings.volume.claim
    minutes = _for_node(settings.timeout_minutes, name)
    if minutes is not None:
        config.active_deadline_seconds = max(1, round(minutes * 60))
    if settings.image_pull_policy:
        config.image_pull_policy = settings.image_pull_policy
    return json_format.MessageToDict(config)


def _labels(name: str, settings: Kubeflow) -> dict[str, str]:
    labels = dict(_for_node(settings.node_selector, name) or {})
    resources = _for_node(settings.resources, name)
    if resources is not None and resources.gpu and resources.gpu_type:
        labels[settings.gpu_label] = resources.gpu_type
    return labels


def _secrets(config: Any, name: str, settings: Kubeflow) -> None:
    for secret in settings.secrets:
        if secret.nodes and name not in secret.nodes:
            continue
        if secret.env:
            added = config.secret_as_env.add(secret_name=secret.name)
            added.secret_name_parameter.runtime_value.constant.string_value = secret.name
            for key, variable in secret.env.items():
                added.key_to_env.add(secret_key=key, env_var=variable)
        if secret.mount:
            mounted = config.secret_as_volume.add(secret_name=secret.name, mount_path=secret.mount)
            mounted.secret_name_parameter.runtime_value.constant.string_value = secret.name
