"""Refusals, conditions, values and the object store of the spec runner, one by one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.runners import spec_values
from pipelines.runners.spec_conditions import holds
from pipelines.runners.spec_container import Retry
from pipelines.runners.spec_load import SpecRefusedError, load
from pipelines.runners.spec_store import ObjectStore, local_path
from pipelines.runners.spec_values import ResolutionError

Spec = dict[str, Any]

GOOD: Spec = {
    "pipelineInfo": {"name": "small"},
    "schemaVersion": "2.1.0",
    "sdkVersion": "kfp-2.16.0",
    "root": {
        "dag": {
            "tasks": {
                "first": {
                    "taskInfo": {"name": "first"},
                    "componentRef": {"name": "one"},
                    "inputs": {"parameters": {"x": {"runtimeValue": {"constant": 1.0}}}},
                },
                "second": {
                    "taskInfo": {"name": "second"},
                    "componentRef": {"name": "two"},
                    "dependentTasks": ["first"],
                },
            }
        }
    },
    "components": {
        "one": {
            "executorLabel": "exec-one",
            "inputDefinitions": {"parameters": {"x": {"parameterType": "NUMBER_DOUBLE"}}},
            "outputDefinitions": {"artifacts": {"y": {"artifactType": {"schemaTitle": "system.Dataset"}}}},
        },
        "two": {"executorLabel": "exec-two"},
    },
    "deploymentSpec": {
        "executors": {
            "exec-one": {"container": {"image": "i:1", "command": ["true"]}},
            "exec-two": {"container": {"image": "i:1", "command": ["false"]}},
        }
    },
}


def tasks(spec: Spec) -> Spec:
    return dict(spec["root"]["dag"]["tasks"])


def container(spec: Spec) -> Spec:
    found: Spec = spec["deploymentSpec"]["executors"]["exec-one"]["container"]
    return found


def first(spec: Spec) -> Spec:
    found: Spec = spec["root"]["dag"]["tasks"]["first"]
    return found


def executor(spec: Spec, value: Spec) -> None:
    spec["deploymentSpec"]["executors"]["exec-one"] = value


def value(spec: Spec, given: Spec) -> None:
    first(spec)["inputs"]["parameters"]["x"] = given


IMPORTER = {
    "importer": {"artifactUri": {"runtimeParameter": "x"}, "typeSchema": {"schemaTitle": "system.Dataset"}}
}

REFUSED: dict[str, tuple[Callable[[Spec], Any], str]] = {
    "another schema": (lambda s: s.update(schemaVersion="2.0.0"), "2.1.0 only"),
    "an unknown key": (lambda s: s.update(extra=1), "does not follow the schema"),
    "no name": (lambda s: s.update(pipelineInfo={"name": ""}), "name is empty"),
    "a bad name": (lambda s: s.update(pipelineInfo={"name": "Big_Name"}), "lower-case letters"),
    "no root": (lambda s: s.pop("root"), "root component is empty"),
    "a component called root": (lambda s: s["components"].update(root={}), "reserved"),
    "a resolver": (lambda s: executor(s, {"resolver": {}}), "resolvers are not implemented"),
    "a custom job": (lambda s: executor(s, {"customJob": {}}), "Google Cloud's only"),
    "no executor": (lambda s: s["deploymentSpec"]["executors"].pop("exec-one"), "not in the deployment"),
    "no component": (lambda s: s["components"].pop("two"), "no component 'two'"),
    "an empty component": (lambda s: s["components"].update(two={}), "neither a DAG nor an executor"),
    "an unknown producer": (lambda s: first(s).update(dependentTasks=["third"]), "unknown producer task"),
    "a circle": (lambda s: first(s).update(dependentTasks=["second"]), "wait for each other"),
    "a name that Argo refuses": (
        lambda s: tasks(s) and s["root"]["dag"]["tasks"].update(a_b=first(s)),
        "Argo takes letters",
    ),
    "artifact iterators": (
        lambda s: first(s).update(artifactIterator={"itemInput": "x"}),
        "artifact iterators are not",
    ),
    "loops": (lambda s: first(s).update(parameterIterator={"itemInput": "x"}), "runs no loops"),
    "a runtime parameter": (
        lambda s: value(s, {"runtimeValue": {"runtimeParameter": "p"}}),
        "given as runtime_parameter, which is not",
    ),
    "an old constant": (
        lambda s: value(s, {"runtimeValue": {"constantValue": {"intValue": 1}}}),
        "given as constant_value, which is not",
    ),
    "a missing parameter": (lambda s: first(s).pop("inputs"), "neither a value nor a default"),
    "no command": (lambda s: container(s).pop("command"), "command and arguments are empty"),
    "no image": (lambda s: container(s).pop("image"), "no image"),
    "a driver of Vertex": (
        lambda s: container(s).update(lifecycle={"preCacheCheck": {"command": ["x"]}}),
        "leaves it out without a word",
    ),
    "a bad quantity": (
        lambda s: container(s).update(resources={"resourceMemoryLimit": "32 GB"}),
        "resource_memory_limit is no quantity",
    ),
    "Vertex's name of a GPU": (
        lambda s: container(s).update(resources={"accelerator": {"type": "NVIDIA_TESLA_T4", "count": 1}}),
        "asked for as a resource of that name",
    ),
    "an importer's URI from a task": (
        lambda s: executor(s, IMPORTER),
        "must be a parameter of its DAG",
    ),
    "a condition on an importer": (
        lambda s: (executor(s, IMPORTER), first(s).update(triggerPolicy={"condition": "true"})),
        "condition on an importer",
    ),
    "a type by URI": (
        lambda s: s["components"]["one"]["outputDefinitions"]["artifacts"]["y"].update(
            artifactType={"schemaUri": "x"}
        ),
        "schemaUri is not supported",
    ),
    "a type without title": (
        lambda s: s["components"]["one"]["outputDefinitions"]["artifacts"]["y"].update(
            artifactType={"instanceSchema": "type: object"}
        ),
        "no title",
    ),
    "only exit handlers": (
        lambda s: [
            task.update(triggerPolicy={"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}, dependentTasks=["second"])
            for task in tasks(s).values()
        ],
        "no exit handler",
    ),
    "one container for two interfaces": (
        lambda s: s["deploymentSpec"]["executors"].update({"exec-two": {"container": container(s)}}),
        "keep one of the two definitions",
    ),
    "part of a back-off factor": (
        lambda s: first(s).update(retryPolicy={"maxRetryCount": 1, "backoffFactor": 1.5}),
        "whole back-off factors",
    ),
}


def test_the_good_one_passes() -> None:
    assert load(yaml.safe_dump(GOOD)).spec.pipeline_info.name == "small"


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_cluster_refuses_is_refused(name: str) -> None:
    spoil, message = REFUSED[name]
    spec = copy.deepcopy(GOOD)
    spoil(spec)
    with pytest.raises(SpecRefusedError, match=message):
        load(yaml.safe_dump(spec))


def test_components_in_a_circle() -> None:
    spec = copy.deepcopy(GOOD)
    inner = {"t": {"taskInfo": {"name": "t"}, "componentRef": {"name": "two"}}}
    spec["components"]["two"] = {"dag": {"tasks": inner}}
    with pytest.raises(SpecRefusedError, match="circle: root -> two -> two"):
        load(yaml.safe_dump(spec))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (yaml.safe_dump_all([GOOD, GOOD]), "2 spec documents"),
        ("a: 1", "no pipeline spec"),
        (
            yaml.safe_dump_all(
                [
                    GOOD,
                    {
                        "platforms": {
                            "kubernetes": {"deploymentSpec": {"executors": {"exec-one": {"podColour": 1}}}}
                        }
                    },
                ]
            ),
            "kubernetes, exec-one|does not follow",
        ),
    ],
)
def test_documents(text: str, message: str) -> None:
    with pytest.raises(SpecRefusedError, match=message):
        load(text)


INPUT = {
    "inputs": {
        "parameterValues": {"x": "heads", "n": 3.0, "yes": True},
        "artifacts": {"a": {"artifacts": [{"uri": "minio://b/a", "metadata": {"blessed": 1.0}}]}},
    }
}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("inputs.parameter_values['x'] == 'heads'", True),
        ("inputs.parameter_values['x'] != 'heads'", False),
        ("int(inputs.parameter_values['n']) > 2 && inputs.parameter_values['yes']", True),
        ("!(inputs.parameter_values['n'] >= 3) || inputs.parameter_values['x'] == 'tails'", False),
        ("inputs.artifacts['a'].artifacts[0].metadata['blessed'] == 1.0", True),
        ("inputs.artifacts['a'].artifacts[0].uri == 'minio://b/a'", True),
        ("string(inputs.parameter_values['n']) == '3'", True),
        ("inputs.parameter_values['x'] == 3", False),
        ("-1 < inputs.parameter_values['n']", True),
        (r"'it\'s' == \"it's\"".replace(r"\"", '"'), True),
    ],
)
def test_conditions(condition: str, expected: bool) -> None:
    assert holds(condition, INPUT) is expected


@pytest.mark.parametrize(
    "condition",
    ["inputs.parameter_values['z'] == 1", "inputs.parameter_values['x'] < 3", "1", "int('3.5') > 1"],
)
def test_conditions_that_fail_on_a_cluster(condition: str) -> None:
    with pytest.raises(ResolutionError):
        holds(condition, INPUT)


@pytest.mark.parametrize(
    "condition", ["1 + 2 == 3", "size('a') == 1", "outputs.x == 1", "(1 == 1", "1 == 1)"]
)
def test_conditions_beyond_what_it_knows_are_refused(condition: str) -> None:
    with pytest.raises(SpecRefusedError):
        holds(condition, INPUT)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (30.0, "30"),
        (0.1, "0.1"),
        (1e-7, "0.0000001"),
        (1e21, "1000000000000000000000"),
        (True, "true"),
        (None, ""),
        ({"b": 1, "a": [1, 2]}, '{"a":[1,2],"b":1}'),
    ],
)
def test_values_as_text(given: Any, text: str) -> None:
    assert spec_values.text_of(given) == text


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (" 3\n", "NUMBER_INTEGER", 3.0),
        ("0.5", "NUMBER_DOUBLE", 0.5),
        ("true", "BOOLEAN", True),
        ("[1]", "LIST", [1]),
    ],
)
def test_output_files(text: str, kind: str, expected: Any) -> None:
    assert spec_values.from_text(text, kind) == expected


@pytest.mark.parametrize(("text", "kind"), [("3.5", "NUMBER_INTEGER"), ("yes", "BOOLEAN"), ("[1]", "STRUCT")])
def test_output_files_of_another_type(text: str, kind: str) -> None:
    with pytest.raises(ResolutionError, match=kind):
        spec_values.from_text(text, kind)


def test_placeholders_of_an_executor_input() -> None:
    given = {
        "inputs": {**INPUT["inputs"]},
        "outputs": {"artifacts": {}, "parameters": {"p": {"outputFile": "/o/p"}}, "outputFile": "/o/f"},
    }
    known = spec_values.placeholders(given, lambda uri: f"/local/{uri.split('//')[1]}")
    filled = spec_values.fill(
        [
            "{{$.inputs.artifacts['a'].path}}",
            "n={{$.inputs.parameters['n']}}",
            "{{$.outputs.parameters['p'].output_file}}",
        ],
        known,
        "task",
    )
    assert filled == ["/local/b/a", "n=3", "/o/p"]
    assert json.loads(known["{{$}}"]) == given


def test_a_store_holds_files_only(tmp_path: Path) -> None:
    store, container_root = ObjectStore(tmp_path / "store"), tmp_path / "container"
    uri = "s3://bucket/run/thing"
    place = local_path(container_root, uri)
    assert place == container_root / "s3/bucket/run/thing"
    (place / "empty").mkdir(parents=True)
    (place / "full").mkdir()
    (place / "full/a").write_text("a")
    store.upload(container_root, uri)
    store.download(tmp_path / "other", uri)
    found = sorted(path.name for path in local_path(tmp_path / "other", uri).rglob("*"))
    assert found == ["a", "full"]


def test_a_link_to_a_folder_cannot_be_uploaded(tmp_path: Path) -> None:
    place = local_path(tmp_path, "gs://bucket/thing")
    place.mkdir(parents=True)
    (place / "link").symlink_to(tmp_path)
    with pytest.raises(ResolutionError, match="link to a folder"):
        ObjectStore(tmp_path / "store").upload(tmp_path, "gs://bucket/thing")


def test_other_schemes_are_unknown(tmp_path: Path) -> None:
    with pytest.raises(ResolutionError, match="unsupported storage scheme"):
        local_path(tmp_path, "file:///tmp/x")


def test_a_retry_policy_is_read_as_argo_takes_it() -> None:
    spec = copy.deepcopy(GOOD)
    first(spec)["retryPolicy"] = {"maxRetryCount": 2, "backoffDuration": "5s", "backoffMaxDuration": "60s"}
    task = load(yaml.safe_dump(spec)).spec.root.dag.tasks["first"]
    assert Retry.of(task) == Retry(count=2, wait_s=5.0, factor=1.0, within_s=60.0)
