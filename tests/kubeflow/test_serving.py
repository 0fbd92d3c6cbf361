"""The manifests for TensorFlow Serving are valid, and say what they must."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from components.serving.server import text_protos
from tests.conftest import ROOT

FOLDER = ROOT / "kubeflow" / "serving"
MANIFESTS = sorted(path for path in FOLDER.glob("*.yaml") if path.name != "compose.yaml")
KUBERNETES = "1.31"


def load(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


@pytest.fixture(scope="module")
def container() -> dict[str, Any]:
    (found,) = load("deployment.yaml")["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid(path: Path) -> None:
    kubernetes_validate.validate(yaml.safe_load(path.read_text()), KUBERNETES, strict=True)


def test_a_wrong_manifest_would_be_noticed() -> None:
    deployment = load("deployment.yaml")
    deployment["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES, strict=True)


def test_all_images_are_the_release_of_the_client_library(container) -> None:
    release = importlib.metadata.version("tensorflow-serving-api")
    assert container["image"] == f"tensorflow/serving:{release}"
    assert load("compose.yaml")["services"]["tensorflow-serving"]["image"] == container["image"]


def test_nothing_runs_as_root_or_may_become_it(container) -> None:
    pod = load("deployment.yaml")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    service = load("compose.yaml")["services"]["tensorflow-serving"]
    assert service["user"] != "root" and service["read_only"] and service["cap_drop"] == ["ALL"]


def test_memory_and_cpu_are_limited(container) -> None:
    assert (
        set(container["resources"]["limits"]) == set(container["resources"]["requests"]) == {"cpu", "memory"}
    )


def test_threads_are_as_many_as_the_limit(container) -> None:
    cores = container["resources"]["limits"]["cpu"]
    for kind in ("intra", "inter"):
        assert f"--tensorflow_{kind}_op_parallelism={cores}" in container["args"]


def test_a_pod_is_ready_only_when_a_version_is_loaded(container) -> None:
    (name,) = [item.partition("=")[2] for item in container["args"] if item.startswith("--model_name=")]
    assert container["readinessProbe"]["httpGet"]["path"] == f"/v1/models/{name}/metadata"
    assert container["startupProbe"]["httpGet"] == container["readinessProbe"]["httpGet"]


def test_everything_selects_the_same_pods() -> None:
    deployment = load("deployment.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        load("service.yaml")["spec"]["selector"],
        load("pod-disruption-budget.yaml")["spec"]["selector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels for selector in selectors)
    target = load("horizontal-pod-autoscaler.yaml")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])


def test_ports_volumes_and_config_fit_together(container) -> None:
    pod = load("deployment.yaml")["spec"]["template"]["spec"]
    ports = {item["name"]: item["containerPort"] for item in container["ports"]}
    assert f"--port={ports['grpc']}" in container["args"]
    assert f"--rest_api_port={ports['rest']}" in container["args"]
    assert {item["targetPort"] for item in load("service.yaml")["spec"]["ports"]} == set(ports)
    volumes = {item["name"]: item for item in pod["volumes"]}
    assert {item["name"] for item in container["volumeMounts"]} == set(volumes)
    assert (
        volumes["serving"]["persistentVolumeClaim"]["claimName"]
        == load("volume-claim.yaml")["metadata"]["name"]
    )
    config = load("configmap.yaml")
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]
    files = re.findall(r"/config/(\S+)", " ".join(container["args"]))
    assert sorted(files) == sorted(config["data"])


def test_the_batching_parameters_are_understood(tmp_path) -> None:
    path = tmp_path / "batching.config"
    path.write_text(load("configmap.yaml")["data"]["batching.config"])
    assert text_protos.read_batching(path).max_batch_size == 32
