"""Compiling for Kubeflow: the golden file, what every setting becomes, and what is refused before that."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines import config
from pipelines.errors import ConfigError, InputError
from pipelines.runners import kfp_corrections, kfp_platform, kubeflow, spec_load
from pipelines.runners.kubeflow import check_for_cluster, parameters_here, pipeline_name
from pipelines.workspace import Workspace

GOLDEN = Path(__file__).parent / "golden"
CLUSTER = ("kubeflow.image=registry.example.com/headrace:1", "kubeflow.volume.claim=headrace")
FULL = (
    *CLUSTER,
    "kubeflow.pipeline_root=s3://bucket/runs",
    "kubeflow.notify.url=https://chat.example.com/hook",
    "kubeflow.resources={all: {cpu: 0.5, memory: 4Gi}, "
    "Trainer: {gpu: 1, gpu_type: nvidia-tesla-a100, cpu: 8, memory: 32Gi}}",
    "kubeflow.tolerations={Trainer: [{key: nvidia.com/gpu, effect: NoSchedule}]}",
    "kubeflow.node_selector={Pusher: {zone: inner}}",
    "kubeflow.secrets=[{name: bucket, env: {key: TOKEN}, nodes: [Pusher]}, {name: ca, mount: /etc/ca}]",
    "kubeflow.timeout_minutes={all: 60, Trainer: 600}",
    "kubeflow.no_cache=[Pusher]",
    "kubeflow.retries={count: 2, backoff_s: 30, factor: 2, within_s: 7200}",
    "beam.args=['--direct_num_workers=2']",
)


def settled(text: str) -> str:
    """The YAML without what says nothing of compiling: digests of code, and values of settings."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "<digest>", text)
    documents = [_without_json(document) for document in yaml.safe_load_all(text)]
    return yaml.dump_all(documents, Dumper=_Plain, sort_keys=True, width=110)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _without_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_json(item) for item in value]
    return "<JSON>" if isinstance(value, str) and value.startswith("{") and value[1:2] != "{" else value


@pytest.fixture(scope="module")
def compiled(headrace, tmp_path_factory) -> Any:
    """Compiles with overrides; returns the YAML."""

    def go(*overrides: str, target: str = "kfp") -> str:
        path = tmp_path_factory.mktemp("compiled") / "pipeline.yaml"
        arguments = [f"--set={override}" for override in overrides]
        done = headrace("compile", "digits", "-o", str(path), "--target", target, *arguments)
        assert done.code == 0, done.err
        return path.read_text()

    return go


@pytest.fixture(scope="module")
def full(compiled) -> str:
    return str(compiled(*FULL))


@pytest.fixture(scope="module")
def vertex(compiled) -> str:
    return str(compiled(CLUSTER[0], "kubeflow.volume.path=/gcs/bucket/headrace", target="vertex"))


def test_every_change_shows(full) -> None:
    """HEADRACE_WRITE_GOLDEN=1 writes the file anew; the difference belongs into the commit."""
    golden, found = GOLDEN / "digits.yaml", settled(full)
    if os.environ.get("HEADRACE_WRITE_GOLDEN"):
        golden.write_text(found)
    assert found == golden.read_text()


def test_kubeflows_sdk_reads_it(full, vertex) -> None:
    from kfp import components

    read = components.load_component_from_text(full)
    assert set(read.component_spec.inputs) == {"image", "workspace", "data_path", "span", "epochs"}
    assert components.load_component_from_text(vertex).name == "digits"


def test_kubeflows_backend_would_take_it_and_not_that_of_vertex(full, vertex) -> None:
    assert spec_load.load(full).kubernetes.keys() >= {"Trainer_executor", "Notify_executor"}
    with pytest.raises(spec_load.SpecRefusedError, match="resolvers are not implemented"):
        spec_load.load(vertex)


@pytest.fixture(scope="module")
def documents(full) -> list[Any]:
    return list(yaml.safe_load_all(full))


def test_a_trainer_gets_what_it_was_given(documents) -> None:
    spec, platform = documents
    resources = spec["deploymentSpec"]["executors"]["Trainer_executor"]["container"]["resources"]
    assert resources == {
        "resourceCpuLimit": "8",
        "resourceCpuRequest": "8",
        "resourceMemoryLimit": "32Gi",
        "resourceMemoryRequest": "32Gi",
        "accelerator": {"resourceType": "nvidia.com/gpu", "resourceCount": "1"},
    }
    config = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["Trainer_executor"]
    assert config["nodeSelector"]["labels"] == {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}
    assert config["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert config["activeDeadlineSeconds"] == "36000"
    assert [item["mountPath"] for item in config["pvcMount"]] == ["/headrace"]
    assert [item["mountPath"] for item in config["secretAsVolume"]] == ["/etc/ca"]
    assert "secretAsEnv" not in config


def test_parameters_reach_what_they_change(documents) -> None:
    spec, _ = documents
    for label, executor in spec["deploymentSpec"]["executors"].items():
        if "container" in executor:
            assert executor["container"]["image"] == "{{$.inputs.parameters['image']}}", label
    arguments = spec["deploymentSpec"]["executors"]["Trainer_executor"]["container"]["args"]
    at = arguments.index("--override")
    assert arguments[at + 1] == "custom_config:train.epochs={{$.inputs.parameters['epochs']}}"
    assert arguments[-1] == "--direct_num_workers=2" or "--direct_num_workers=2" in arguments
    task = spec["components"]["tfx-dag"]["dag"]["tasks"]["Trainer"]
    assert task["inputs"]["parameters"]["epochs"] == {"componentInputParameter": "epochs"}
    assert spec["root"]["dag"]["tasks"]["tfx-dag"]["inputs"]["parameters"]["epochs"] == {
        "componentInputParameter": "epochs"
    }


def test_only_resolvers_and_what_was_named_are_not_cached(documents) -> None:
    tasks = documents[0]["components"]["tfx-dag"]["dag"]["tasks"]
    uncached = {name for name, task in tasks.items() if not task.get("cachingOptions", {}).get("enableCache")}
    imports = {"BaselineImport", "EarlierStatisticsImport"}
    assert uncached - imports == {"ResolveData", "Baseline", "EarlierStatistics", "Pusher"}


def test_no_path_of_this_machine_is_in_it(full, tmp_path) -> None:
    assert str(Path.cwd()) not in full
    assert "/tmp/" not in full


def test_a_run_on_this_machine_uses_its_paths(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = config.load("photos", ["data.path=pictures"])
    found = parameters_here(experiment, Workspace(tmp_path / "workspace"))
    assert found == {"workspace": f"{tmp_path}/workspace", "data_path": f"{tmp_path}/pictures"}


def test_names_have_no_underscores() -> None:
    experiment = config.from_mapping({"name": "my_digits", "data": {"source": "digits"}})
    assert pipeline_name(experiment) == "my-digits"
    named = kubeflow._named(experiment)
    assert (named.name, named.model_name) == ("my-digits", experiment.model_name)


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (CLUSTER[1:], ConfigError, "needs to know the image"),
        (CLUSTER[:1], ConfigError, "share no folder"),
        ((*CLUSTER, "data={path: /home/me/cats.csv}"), InputError, "cannot see the local path"),
        ((*CLUSTER, "model.weights=mine.keras"), InputError, "cannot see the model 'mine.keras'"),
        ((*CLUSTER, "train.distill={teacher: other@1}"), InputError, "cannot see the model 'other@1'"),
        ((*CLUSTER, "validation.schema_file=none.pbtxt"), InputError, "curated schema is not there"),
    ],
)
def test_what_a_cluster_lacks_is_said_before(overrides, error, message) -> None:
    with pytest.raises(error, match=message):
        check_for_cluster(config.load("digits", overrides))


@pytest.mark.parametrize("path", ["/headrace/data/*.csv", "/headrace/logs/{YYYY}-{MM}-{DD}"])
def test_data_on_the_volume_is_seen(path: str) -> None:
    check_for_cluster(config.load("digits", (*CLUSTER, f"data={{path: '{path}', format: csv}}")))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("kubeflow.resources={Trainer: {memory: 32 GB}}", "should match pattern"),
        ("kubeflow.resources={Trainer: {gpus: 1}}", "Unknown key"),
        ("kubeflow.resources={Trainer: {gpu: 1000}}", "less than or equal to 64"),
        ("kubeflow.resources={Trainer: {gpu_type: nvidia-l4}}", "say how many"),
        ("kubeflow.volume={claim: Not_A_Name}", "should match pattern"),
        ("kubeflow.secrets=[{name: a}]", "needs env or mount"),
        ("kubeflow.retries={factor: 1.5}", "valid integer"),
        ("kubeflow.pipeline_root=/tmp/x", "should match pattern"),
    ],
)
def test_settings_that_the_schema_does_not_allow(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.load("digits", [*CLUSTER, override])


SPEC: dict[str, Any] = {
    "root": {"dag": {"tasks": {"Trainer": {"taskInfo": {"name": "Trainer"}, "componentRef": {"name": "T"}}}}},
    "components": {"T": {"executorLabel": "T_executor"}},
    "deploymentSpec": {"executors": {"T_executor": {"container": {"image": "i", "args": []}}}},
}


def applied(target: Any, **settings: Any) -> tuple[Any, Any]:
    spec = json.loads(json.dumps(SPEC))
    experiment = config.from_mapping(
        {"name": "x", "data": {"source": "digits"}, "kubeflow": {"image": "i:1", **settings}}
    )
    return spec, kfp_platform.apply(spec, experiment.kubeflow, target)


def test_vertex_gets_numbers_and_its_own_names() -> None:
    given = {"Trainer": {"gpu": 2, "gpu_type": "nvidia-tesla-a100", "cpu": 8.0, "memory": "32Gi"}}
    spec, platform = applied("vertex", resources=given)
    assert platform == {}
    assert spec["deploymentSpec"]["executors"]["T_executor"]["container"]["resources"] == {
        "cpuLimit": 8.0,
        "memoryLimit": 34.36,
        "accelerator": {"type": "NVIDIA_TESLA_A100", "count": "2"},
    }


def test_vertex_has_no_place_for_what_is_kubernetes() -> None:
    with pytest.raises(ConfigError, match="Vertex knows no node selector"):
        applied("vertex", node_selector={"all": {"a": "b"}})


def test_a_node_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match="no node 'Trainr'") as caught:
        applied("kfp", timeout_minutes={"Trainr": 1.0})
    assert "'Trainer'" in caught.value.remedy


def test_no_retries_is_no_policy() -> None:
    spec, _ = applied("kfp", retries={"count": 0})
    assert "retryPolicy" not in spec["root"]["dag"]["tasks"]["Trainer"]


def test_a_producer_that_tfx_names_wrongly() -> None:
    output = {"producerTask": "First_task", "outputParameterKey": "y"}
    tasks = {
        "First": {"componentRef": {"name": "a"}},
        "Second": {
            "componentRef": {"name": "a"},
            "inputs": {"parameters": {"x": {"taskOutputParameter": output}}},
        },
    }
    spec = {"root": {"dag": {"tasks": tasks}}, "components": {"a": {"executorLabel": "e"}}}
    kfp_corrections.producers(spec)
    assert output["producerTask"] == "First"


def test_a_toleration_with_a_value_equals_it_as_in_kubernetes() -> None:
    taint = "{Trainer: [{key: pool, value: gpu, effect: NoSchedule}]}"
    experiment = config.load("digits", [f"kubeflow.tolerations={taint}"])
    (found,) = experiment.kubeflow.tolerations["Trainer"]
    assert found.operator == "Equal"
    assert config.from_mapping(json.loads(config.to_json(experiment))).kubeflow == experiment.kubeflow
    with pytest.raises(ConfigError, match="Exists takes no value"):
        config.load("digits", [f"kubeflow.tolerations={taint.replace('value', 'operator: Exists, value')}"])
