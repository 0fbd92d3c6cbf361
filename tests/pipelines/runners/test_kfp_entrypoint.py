"""What the entry point makes of what Kubeflow's launcher hands it."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from tfx.types import standard_artifacts

from components.artifacts import IngestionReport
from pipelines.runners import kfp_artifacts, kfp_entrypoint, kfp_executors
from pipelines.runners.kfp_facts import FACTS

MODEL = {"artifactType": {"instanceSchema": "title: tfx.Model\ntype: object\n"}}
EXAMPLES = {"artifactType": {"instanceSchema": "title: tfx.Examples\nproperties:\n  span: {type: integer}\n"}}
SCHEMA = {"artifactType": {"instanceSchema": "title: tfx.Schema\ntype: object\n"}}


def call(
    executor: str,
    *extra: str,
    component: Any,
    parameters: Any = None,
    inputs: Any = None,
    outputs: Any = None,
    folder: Path = Path("/nowhere"),
) -> kfp_entrypoint.Call:
    given = {
        "inputs": {"parameterValues": parameters or {}, "artifacts": inputs or {}},
        "outputs": {"artifacts": outputs or {}, "outputFile": str(folder / "out" / "output.json")},
    }
    arguments = ["--node", "Node", "--executor", executor, "--executor_input", json.dumps(given)]
    return kfp_entrypoint.parse([*arguments, "--component", json.dumps(component), *extra])


def test_numbers_become_integers_where_they_are_declared() -> None:
    component = {
        "inputDefinitions": {
            "parameters": {
                "count": {"parameterType": "NUMBER_INTEGER"},
                "limit": {"parameterType": "NUMBER_DOUBLE"},
                "root": {"parameterType": "STRING"},
            }
        }
    }
    found = kfp_entrypoint.exec_properties(
        call(
            "x.Y",
            "--workspace",
            "/headrace",
            component=component,
            parameters={"count": 3.0, "limit": 2.0, "root": "$HEADRACE_WORKSPACE/serving/m"},
        )
    )
    assert found == {"count": 3, "limit": 2.0, "root": "/headrace/serving/m"}
    assert isinstance(found["count"], int) and isinstance(found["limit"], float)


def test_a_parameter_of_the_pipeline_reaches_a_key_inside_json() -> None:
    found = kfp_entrypoint.exec_properties(
        call(
            "x.Y",
            "--override",
            "custom_config:train.epochs=5",
            component={},
            parameters={"custom_config": json.dumps({"train": {"epochs": 30, "seed": 1}})},
        )
    )
    assert json.loads(found["custom_config"]) == {"train": {"epochs": 5, "seed": 1}}


def test_what_it_does_not_know_is_beams() -> None:
    made = call("x.Y", "--direct_num_workers=2", component={})
    assert made.beam_args == ["--direct_num_workers=2"]


@pytest.mark.parametrize(
    "uri",
    ["minio://b/v2/artifacts/digits/run-7/Node/1c3f/model", "s3://b/digits/run-7/Node/model"],
)
def test_the_run_is_told_by_where_outputs_go(uri: str) -> None:
    component = {"outputDefinitions": {"artifacts": {"model": MODEL}}}
    outputs = {"model": {"artifacts": [{"uri": uri}]}}
    assert kfp_entrypoint.run_id(call("x.Y", component=component, outputs=outputs)) == "run-7"


def test_inputs_get_their_class_from_the_component_and_their_place_from_the_launcher() -> None:
    """As open-source Kubeflow hands them over: the type empty, numbers as doubles."""
    component = {"inputDefinitions": {"artifacts": {"examples": EXAMPLES, "model": MODEL}}}
    given = {
        "examples": {
            "artifacts": [
                {
                    "name": "12",
                    "uri": "minio://b/examples",
                    "type": {"instanceSchema": ""},
                    "metadata": {
                        "span": 3.0,
                        "split_names": '["train"]',
                        "bad_records": 2.0,
                        "payload_format": "FORMAT_TF_EXAMPLE",
                        "display_name": "examples",
                        "store_session_info": "{}",
                    },
                }
            ]
        },
        "model": {"artifacts": [{"uri": f"minio://b/{kfp_artifacts.NOTHING}"}]},
    }
    made = call("x.Y", "--path", "inputs.examples=/minio/b/examples", component=component, inputs=given)
    found = kfp_entrypoint.artifacts(made, "inputs", given)
    (examples,) = found["examples"]
    assert isinstance(examples, standard_artifacts.Examples)
    assert (examples.id, examples.uri, examples.span) == (12, "/minio/b/examples", 3)
    assert examples.get_int_custom_property("bad_records") == 2
    assert examples.get_string_custom_property("payload_format") == "FORMAT_TF_EXAMPLE"
    assert not examples.has_custom_property("display_name")
    assert found["model"] == []


@pytest.mark.parametrize(
    ("name", "told"),
    [("12", 12), ("projects/1/locations/x/metadataStores/default/artifacts/a", None)],
)
def test_ids_go_out_as_the_store_knows_them(name: str, told: Any) -> None:
    given = {"model": {"artifacts": [{"name": name, "uri": "gs://b/model"}]}}
    made = call("x.Y", "--path", "inputs.model=/gcs/b/model", component={}, inputs=given)
    number = kfp_artifacts.id_of(name)
    assert kfp_entrypoint._outside(made, "current_model_id", number) == (told or name)
    assert kfp_entrypoint._outside(made, "current_model", "/gcs/b/model") == "gs://b/model"
    assert kfp_entrypoint._outside(made, "bad_records", number) == number


def test_tfx_own_entry_point_still_needs_the_types_that_kubeflow_leaves_empty() -> None:
    """Once this fails, `kfp_corrections.own_entry_point` has a reason less."""
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2
    from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_entrypoint_utils as theirs

    given = {"uri": "minio://b/model", "type": {"instanceSchema": ""}}
    artifact = json_format.ParseDict(given, pipeline_spec_pb2.RuntimeArtifact())
    with pytest.raises(AttributeError, match="NoneType"):
        theirs.parse_raw_artifact_dict({"model": pipeline_spec_pb2.ArtifactList(artifacts=[artifact])})


def test_our_own_types_have_titles_that_kubeflow_takes() -> None:
    assert kfp_artifacts.class_of("headrace.IngestionReport") is IngestionReport
    for name in kfp_artifacts.OWN_TYPES:
        # TFX's compiler asks for this of every type that is not its own.
        assert re.fullmatch(r"[a-z][a-z0-9-_]{2,20}\.[A-Z][a-zA-Z0-9-_]{2,49}", name)


def test_a_node_runs_and_leaves_what_the_launcher_reads(tmp_path) -> None:
    place = tmp_path / "minio" / "b" / "schema"
    place.parent.mkdir(parents=True)
    component = {
        "inputDefinitions": {"parameters": {"schema_text": {"parameterType": "STRING"}}},
        "outputDefinitions": {"artifacts": {"schema": SCHEMA}},
    }
    made = call(
        "pipelines.runners.kfp_executors.CuratedSchema",
        "--path",
        f"outputs.schema={place}",
        component=component,
        parameters={"schema_text": 'feature { name: "a" }'},
        outputs={"schema": {"artifacts": [{"uri": "minio://b/p/run/Node/s/schema"}]}, "executor-logs": {}},
        folder=tmp_path,
    )
    kfp_entrypoint.run(made)
    assert (place / "schema.pbtxt").read_text() == 'feature { name: "a" }'
    output = json.loads((tmp_path / "out" / "output.json").read_text())
    (schema,) = output["artifacts"]["schema"]["artifacts"]
    assert schema["uri"] == "minio://b/p/run/Node/s/schema"
    facts = json.loads(schema["metadata"][FACTS])
    assert facts["wall_s"] >= 0 and facts["host"] and facts["environment_digest"]


def test_a_users_mistake_is_said_without_a_traceback(tmp_path, capsys) -> None:
    component = {
        "inputDefinitions": {"parameters": {"span": {"parameterType": "NUMBER_INTEGER"}}},
        "outputDefinitions": {"artifacts": {}},
    }
    experiment = json.dumps({"name": "x", "data": {"source": "digits"}})
    given = {"experiment": experiment, "workspace": str(tmp_path), "data_path": "/not/there", "span": -1.0}
    made = call("pipelines.runners.kfp_executors.ResolveData", component=component, parameters=given)
    arguments = [
        *("--node", "Node", "--executor", made.executor, "--component", json.dumps(component)),
        *("--executor_input", json.dumps(made.executor_input)),
    ]
    assert kfp_entrypoint.main(arguments) == 1
    told = yaml.safe_load(capsys.readouterr().err)
    assert told["headline"] == "The data path does not exist"


@pytest.fixture
def hook() -> Any:
    """A URL that keeps what is posted to it."""
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hook", bodies
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("when", "state", "posts"),
    [("failure", "FAILED", 1), ("failure", "COMPLETE", 0), ("always", "SUCCEEDED", 1)],
)
def test_who_is_told_how_a_run_ended(hook, when: str, state: str, posts: int) -> None:
    url, bodies = hook
    status = {"state": state, "pipelineJobResourceName": "run-7", "pipelineTaskName": "tfx-dag"}
    kfp_executors.Notify().Do(
        {},
        {},
        {
            "settings": json.dumps({"url": url, "when": when, "timeout_s": 5.0}),
            "pipeline": "digits",
            "final_status": json.dumps(status),
        },
    )
    assert len(bodies) == posts
    if posts:
        assert bodies[0] == {
            "pipeline": "digits",
            "run": "run-7",
            "state": state,
            "text": f"digits: run run-7 ended as {state}",
        }
