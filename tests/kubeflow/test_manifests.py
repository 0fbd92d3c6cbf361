"""The manifests around a pipeline are valid, and fit each other and the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from pipelines import config
from pipelines.runners.kfp_facts import HOST, PORT
from pipelines.runners.kubeflow import check_for_cluster
from tests.conftest import ROOT

FOLDER = ROOT / "kubeflow"
MANIFESTS = sorted([*(FOLDER / "pipeline").glob("*.yaml"), *(FOLDER / "metadata").glob("*.yaml")])
KUBERNETES = "1.31"


def load(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def pod(name: str) -> dict[str, Any]:
    spec = load(name)["spec"]
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    return dict(spec["template"]["spec"])


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid(path: Path) -> None:
    kubernetes_validate.validate(yaml.safe_load(path.read_text()), KUBERNETES, strict=True)


@pytest.mark.parametrize("name", ["pipeline/cronjob.yaml", "metadata/mysql.yaml", "metadata/grpc.yaml"])
def test_nothing_runs_as_root_or_may_become_it(name: str) -> None:
    spec = pod(name)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    for container in spec["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert container["resources"]["limits"]["memory"]
        assert ":" in container["image"] and not container["image"].endswith(":latest")


@pytest.fixture(scope="module")
def experiment(tmp_path_factory) -> config.Experiment:
    path = tmp_path_factory.mktemp("experiment") / "experiment.yaml"
    path.write_text(load("pipeline/configmap.yaml")["data"]["experiment.yaml"])
    return config.load(str(path))


def test_the_experiment_in_the_configmap_can_be_submitted(experiment) -> None:
    check_for_cluster(experiment)


def test_the_job_submits_what_the_configmap_holds_from_the_same_image(experiment) -> None:
    from pipelines.cli.submit import command

    spec = pod("pipeline/cronjob.yaml")
    (container,) = spec["containers"]
    program, name, *arguments = container["args"]
    assert (program, name) == ("headrace", command.name)
    with command.make_context(name, arguments) as context:
        path = Path(context.params["experiment"])
    (mount,) = [item for item in container["volumeMounts"] if item["mountPath"] == str(path.parent)]
    (volume,) = [item for item in spec["volumes"] if item["name"] == mount["name"]]
    configmap = load("pipeline/configmap.yaml")
    assert volume["configMap"]["name"] == configmap["metadata"]["name"]
    assert path.name in configmap["data"]
    assert container["image"] == experiment.kubeflow.image


def test_the_experiment_names_the_volume(experiment) -> None:
    assert experiment.kubeflow.volume is not None
    claim = load("pipeline/volume-claim.yaml")
    assert experiment.kubeflow.volume.claim == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_the_metadata_server_finds_mysql_and_pods_find_the_server() -> None:
    arguments = dict(
        item.lstrip("-").split("=") for item in pod("metadata/grpc.yaml")["containers"][0]["args"]
    )
    service = load("metadata/mysql-service.yaml")
    assert arguments["mysql_config_host"] == service["metadata"]["name"]
    assert int(arguments["mysql_config_port"]) == service["spec"]["ports"][0]["port"]
    environment = {
        item["name"]: item.get("value") for item in pod("metadata/mysql.yaml")["containers"][0]["env"]
    }
    assert environment["MYSQL_DATABASE"] == arguments["mysql_config_database"]
    assert environment["MYSQL_USER"] == arguments["mysql_config_user"]
    text = (FOLDER / "README.md").read_text()
    grpc = load("metadata/grpc-service.yaml")
    assert f'"{HOST}": "{grpc["metadata"]["name"]}"' in text
    assert f'"{PORT}": "{grpc["spec"]["ports"][0]["port"]}"' in text


def test_the_readme_shows_settings_that_exist() -> None:
    blocks = (FOLDER / "README.md").read_text().split("```yaml\n")[1:]
    (shown,) = [yaml.safe_load(block.split("```")[0]) for block in blocks]
    config.from_mapping({"name": "shown", "data": {"source": "digits"}, **shown})


def test_the_readme_names_commands_that_exist() -> None:
    from pipelines.cli.main import COMMANDS, cli

    text = (FOLDER / "README.md").read_text()
    named = {
        line.split("headrace ", 1)[1].split()[0] for line in text.splitlines() if line.startswith("headrace ")
    }
    assert named <= COMMANDS.keys()
    for name in named:
        assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0


def training_job() -> dict[str, Any]:
    return dict(load("training/job.yaml"))


def test_the_training_job_is_one_that_the_operator_takes() -> None:
    """Its resource is Kubeflow's own, of which Kubernetes has no schema; what is in it are pods."""
    job = training_job()
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "TFJob")
    assert set(job["spec"]) == {"runPolicy", "tfReplicaSpecs"}
    assert job["spec"]["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 10}
    assert job["spec"]["tfReplicaSpecs"].keys() == {"Chief", "Worker"}
    for replica in job["spec"]["tfReplicaSpecs"].values():
        assert replica.keys() == {"replicas", "restartPolicy", "template"}
        assert replica["restartPolicy"] == "OnFailure"
        (container,) = replica["template"]["spec"]["containers"]
        # The names by which the operator finds the container and the port for TF_CONFIG.
        assert container["name"] == "tensorflow"
        assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]
        pod = {"apiVersion": "v1", "kind": "Pod", **replica["template"]}
        pod["metadata"] = {**pod["metadata"], "name": "pod"}
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]


def test_all_hosts_of_a_training_see_one_call_on_the_shared_volume() -> None:
    from modules.training import hosts
    from pipelines.cli.run import command

    replicas = training_job()["spec"]["tfReplicaSpecs"]
    chief, worker = (replicas[kind]["template"]["spec"]["containers"][0] for kind in ("Chief", "Worker"))
    call = {item["name"]: item["value"] for item in chief["env"]}[hosts.VARIABLE]
    assert worker["env"] == chief["env"]
    assert worker["args"] == ["python", "-m", hosts.__name__, call]
    program, name, *arguments = chief["args"]
    assert (program, name) == ("headrace", command.name)
    with command.make_context(name, arguments) as context:
        assert Path(call).is_relative_to(context.params["root"])
        assert Path(context.params["experiment"]).name in load("pipeline/configmap.yaml")["data"]
        configmap = yaml.safe_load(load("pipeline/configmap.yaml")["data"]["experiment.yaml"])
        settings = config.from_mapping(configmap, context.params["overrides"])
    assert settings.train.strategy == "multi_worker"
    for kind in ("Chief", "Worker"):
        (claim,) = [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in replicas[kind]["template"]["spec"]["volumes"]
            if "persistentVolumeClaim" in volume
        ]
        assert claim == load("pipeline/volume-claim.yaml")["metadata"]["name"]
