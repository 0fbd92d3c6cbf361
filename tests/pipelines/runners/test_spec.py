"""A compiled pipeline, run with no cluster, does what Kubeflow's driver, launcher and Argo would do."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import dsl
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines.errors import ConfigError
from pipelines.runners import spec
from pipelines.runners.spec_load import SpecRefusedError
from pipelines.runners.spec_step import FAILED, OMITTED, SKIPPED, SUCCEEDED
from tests.pipelines.runners import pipelines_for_spec as small


@dsl.pipeline(name="chain")
def chain(text: str = "ab", times: int = 2):
    said = small.say(text=text)
    filled = small.fill(text=said.outputs["said"])
    small.double(data=filled.outputs["data"])


@pytest.fixture(scope="module")
def chain_text(tmp_path_factory) -> str:
    return small.compiled(chain, tmp_path_factory.mktemp("chain"))


def states(outcome: spec.SpecOutcome) -> dict[str, str]:
    return {name: task.state for name, task in outcome.tasks.items()}


def run(
    pipeline: str, root: Path, *, cache: bool = True, sleep: Any = None, **parameters: Any
) -> spec.SpecOutcome:
    settings = spec.Settings(cache=cache, parallel=4, sleep=sleep or (lambda seconds: None))
    return spec.run_spec(pipeline, root, parameters=parameters, settings=settings)


def content(outcome: spec.SpecOutcome, task: str, key: str) -> str:
    return outcome.store.path(outcome.tasks[task].artifacts[key][0]["uri"]).read_text()


def store(root: Path) -> Any:
    config = pb.ConnectionConfig(sqlite=pb.SqliteMetadataSourceConfig(filename_uri=str(root / "metadata.db")))
    return metadata_store.MetadataStore(config)


@pytest.fixture(scope="module")
def first(chain_text, tmp_path_factory) -> tuple[Path, spec.SpecOutcome]:
    root = tmp_path_factory.mktemp("first")
    return root, run(chain_text, root)


def test_values_and_files_go_from_task_to_task(first) -> None:
    _, outcome = first
    assert states(outcome) == {"say": SUCCEEDED, "fill": SUCCEEDED, "double": SUCCEEDED}
    assert content(outcome, "double", "doubled") == "abab"


def test_artifacts_lie_where_kubeflow_puts_them(first) -> None:
    _, outcome = first
    uri = outcome.tasks["fill"].artifacts["data"][0]["uri"]
    prefix, task, salt, key = uri.rsplit("/", 3)
    assert prefix == f"minio://mlpipeline/v2/artifacts/chain/{outcome.run_id}"
    assert (task, key, len(salt)) == ("fill", "data", 36)


def test_metadata_is_what_kubeflow_writes(first) -> None:
    root, outcome = first
    found = store(root)
    execution = next(
        item
        for item in found.get_executions_by_type("system.ContainerExecution")
        if item.custom_properties["task_name"].string_value == "say"
    )
    assert execution.last_known_state == pb.Execution.COMPLETE
    assert execution.custom_properties["inputs"].struct_value["text"] == "ab"
    assert execution.custom_properties["outputs"].struct_value["said"] == "ab"
    (artifact,) = found.get_artifacts_by_id([int(outcome.tasks["fill"].artifacts["data"][0]["name"])])
    assert artifact.type == "system.Dataset"
    assert artifact.custom_properties["display_name"].string_value == "data"
    contexts = {(item.type, item.name) for item in found.get_contexts_by_artifact(artifact.id)}
    assert contexts == {("system.Pipeline", "chain"), ("system.PipelineRun", outcome.run_id)}


def test_what_a_launcher_gives_a_container_is_kept(first) -> None:
    _, outcome = first
    given = json.loads((outcome.folder / "double" / "executor_input.json").read_text())
    (artifact,) = given["inputs"]["artifacts"]["data"]["artifacts"]
    # Open-source Kubeflow knows the type of an output, and leaves that of an input empty.
    assert artifact["type"] == {"instanceSchema": ""}
    (output,) = given["outputs"]["artifacts"]["doubled"]["artifacts"]
    assert output["type"] == {"schemaTitle": "system.Dataset", "schemaVersion": "0.0.1"}


def test_a_second_run_is_cached_and_another_parameter_is_not(chain_text, first) -> None:
    root, outcome = first
    again = run(chain_text, root)
    assert all(task.cached and not task.attempts for task in again.tasks.values())
    assert again.tasks["double"].artifacts == outcome.tasks["double"].artifacts
    changed = run(chain_text, root, text="x")
    assert not any(task.cached for task in changed.tasks.values())
    assert content(changed, "double", "doubled") == "xx"


def test_the_cache_can_be_off(chain_text, first) -> None:
    root, _ = first
    assert not any(task.cached for task in run(chain_text, root, cache=False).tasks.values())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"txt": "x"}, "no parameter 'txt'"),
        ({"times": "many"}, "Expected NUMBER_INTEGER"),
        ({"times": "1.5"}, "Expected NUMBER_INTEGER"),
        ({"times": True}, "Expected NUMBER_INTEGER"),
    ],
)
def test_parameters_are_checked_before_anything_runs(chain_text, tmp_path, parameters, message) -> None:
    with pytest.raises(ConfigError, match=message):
        run(chain_text, tmp_path, **parameters)
    assert list(tmp_path.iterdir()) == []


@dsl.pipeline(name="choice")
def choice(side: str, folder: str):
    said = small.say(text=side)
    with dsl.If(said.outputs["said"] == "heads"):
        heads = small.say(text="won").set_display_name("heads")
    with dsl.Else():
        tails = small.say(text="lost").set_display_name("tails")
    small.note(where=folder, status=dsl.OneOf(heads.outputs["said"], tails.outputs["said"]))


@pytest.mark.parametrize(("side", "told"), [("heads", "won"), ("edge", "lost")])
def test_conditions_choose(tmp_path, side: str, told: str) -> None:
    text = small.compiled(choice, tmp_path)
    outcome = run(text, tmp_path / "root", side=side, folder=str(tmp_path / "told"))
    assert outcome.state == SUCCEEDED
    assert (tmp_path / "told").read_text() == told
    assert sorted(states(outcome).values()).count(SKIPPED) == 1


@dsl.pipeline(name="guarded")
def guarded(where: str, broken: bool):
    told = small.note(where=where, status=dsl.PIPELINE_TASK_NAME_PLACEHOLDER)
    with dsl.ExitHandler(told), dsl.If(broken == True):  # noqa: E712
        failed = small.fail()
        small.say(text="never").after(failed)


def _with_final_status(text: str) -> str:
    """The SDK passes a final status to Python functions only; any component may ask for it."""
    document = next(yaml.safe_load_all(text))
    (name,) = [name for name, task in document["root"]["dag"]["tasks"].items() if "triggerPolicy" in task]
    task = document["root"]["dag"]["tasks"][name]
    task["inputs"]["parameters"]["status"] = {"taskFinalStatus": {"producerTask": task["dependentTasks"][0]}}
    return yaml.safe_dump(document)


@pytest.mark.parametrize(
    ("broken", "state", "told"), [(True, FAILED, "FAILED"), (False, SUCCEEDED, "COMPLETE")]
)
def test_an_exit_handler_runs_in_any_case_and_is_told_how_it_ended(tmp_path, broken, state, told) -> None:
    text = _with_final_status(small.compiled(guarded, tmp_path))
    outcome = run(text, tmp_path / "root", where=str(tmp_path / "told"), broken=broken)
    assert outcome.state == state
    assert json.loads((tmp_path / "told").read_text())["state"] == told
    assert outcome.tasks["note"].state == SUCCEEDED
    if broken:
        found = {name.rpartition("/")[2]: task.state for name, task in outcome.tasks.items()}
        assert (found["fail"], found["say"]) == (FAILED, OMITTED)


def _retried(enough: int, retries: int) -> Any:
    @dsl.pipeline(name="retried")
    def retried(counter: str):
        small.count(counter=counter, enough=enough).set_retry(
            retries, backoff_duration="2s", backoff_factor=3, backoff_max_duration="3600s"
        )

    return retried


def test_retries_wait_longer_each_time(tmp_path) -> None:
    waits: list[float] = []
    text = small.compiled(_retried(3, 4), tmp_path)
    outcome = run(text, tmp_path / "root", sleep=waits.append, counter=str(tmp_path / "counter"))
    assert outcome.state == SUCCEEDED
    assert outcome.tasks["count"].attempts == 3
    assert waits == [2.0, 6.0]


def test_retries_end(tmp_path) -> None:
    text = small.compiled(_retried(9, 1), tmp_path)
    outcome = run(text, tmp_path / "root", counter=str(tmp_path / "counter"))
    assert outcome.state == FAILED
    assert "code 3 (tried 2 times)" in outcome.tasks["count"].error
    assert (tmp_path / "counter").read_text() == "2"


def test_what_failed_is_not_cached(tmp_path) -> None:
    text = small.compiled(_retried(2, 0), tmp_path)
    counter = str(tmp_path / "counter")
    assert run(text, tmp_path / "root", counter=counter).state == FAILED
    assert run(text, tmp_path / "root", counter=counter).state == SUCCEEDED


def test_tasks_that_do_not_wait_for_each_other_run_at_once(tmp_path) -> None:
    @dsl.pipeline(name="meeting")
    def meeting(one: str, two: str):
        small.meet(mine=one, other=two)
        small.meet(mine=two, other=one)

    text = small.compiled(meeting, tmp_path)
    outcome = run(text, tmp_path / "root", one=str(tmp_path / "one"), two=str(tmp_path / "two"))
    assert outcome.state == SUCCEEDED


def test_an_importer_hands_on_what_lies_in_the_store(tmp_path) -> None:
    @dsl.pipeline(name="importing")
    def importing(uri: str):
        found = dsl.importer(artifact_uri=uri, artifact_class=dsl.Dataset, reimport=False)
        small.double(data=found.output)

    root, uri = tmp_path / "root", "minio://mlpipeline/given/data"
    file = spec.ObjectStore(root / "store").path(uri)
    file.parent.mkdir(parents=True)
    file.write_text("yz")
    text = small.compiled(importing, tmp_path)
    outcome = run(text, root, uri=uri)
    assert content(outcome, "double", "doubled") == "yzyz"
    again = run(text, root, uri=uri)
    assert again.tasks["importer"].artifacts["artifact"] == outcome.tasks["importer"].artifacts["artifact"]
    assert again.tasks["double"].cached


def test_an_import_is_a_copy_with_an_id_of_its_own(tmp_path) -> None:
    """Its session differs from that of what a task wrote, so Kubeflow takes it for another artifact."""

    @dsl.pipeline(name="copying")
    def copying(uri: str = "minio://mlpipeline/nothing"):
        small.fill(text="a")
        dsl.importer(artifact_uri=uri, artifact_class=dsl.Dataset, reimport=False)

    text = small.compiled(copying, tmp_path)
    made = run(text, tmp_path / "root").tasks["fill"].artifacts["data"][0]
    copy = run(text, tmp_path / "root", uri=made["uri"]).tasks["importer"].artifacts["artifact"][0]
    assert copy["uri"] == made["uri"]
    assert copy["name"] != made["name"]


def test_a_placeholder_inside_a_value_is_refused(tmp_path) -> None:
    """The launcher replaces placeholders in the order of a Go map, which is random."""

    @dsl.pipeline(name="nested")
    def nested():
        small.note(where="x", status="{{$.inputs.parameters['where']}}")

    with pytest.raises(SpecRefusedError, match="no certain order"):
        run(small.compiled(nested, tmp_path), tmp_path / "root")


def test_a_container_sees_nothing_of_the_caller(tmp_path, monkeypatch) -> None:
    @dsl.container_component
    def look(found: dsl.OutputPath(str)):
        code = (
            "import os, sys, pathlib; "
            "pathlib.Path(sys.argv[1]).write_text(os.environ.get('LEAK', 'none') + ' ' + os.getcwd())"
        )
        return small.python(code, found)

    @dsl.pipeline(name="looking")
    def looking():
        look()

    monkeypatch.setenv("LEAK", "leaked")
    outcome = run(small.compiled(looking, tmp_path), tmp_path / "root")
    leaked, folder = outcome.tasks["look"].parameters["found"].split()
    assert leaked == "none"
    assert folder == str(outcome.folder / "look" / "root")


def test_secrets_come_from_the_environment_or_are_missed(tmp_path, monkeypatch) -> None:
    from kfp import kubernetes

    @dsl.container_component
    def reveal(found: dsl.OutputPath(str)):
        return small.python(
            "import os, sys, pathlib; pathlib.Path(sys.argv[1]).write_text(os.environ['TOKEN'])", found
        )

    @dsl.pipeline(name="revealing")
    def revealing():
        kubernetes.use_secret_as_env(reveal(), "tokens", {"key": "TOKEN"})

    text = small.compiled(revealing, tmp_path)
    monkeypatch.delenv("TOKEN", raising=False)
    with pytest.raises(ConfigError, match="no cluster to take the secret 'tokens' from"):
        run(text, tmp_path / "root")
    monkeypatch.setenv("TOKEN", "t-1")
    assert run(text, tmp_path / "root").tasks["reveal"].parameters["found"] == "t-1"


def test_a_secret_that_is_mounted_is_a_folder_here_or_missed(tmp_path) -> None:
    from kfp import kubernetes

    @dsl.pipeline(name="mounting")
    def mounting(where: str):
        kubernetes.use_secret_as_volume(
            small.note(where=where, status="x"), "certificates", mount_path=str(tmp_path / "mounted")
        )

    text = small.compiled(mounting, tmp_path)
    with pytest.raises(ConfigError, match="no cluster to take the secret 'certificates' from"):
        run(text, tmp_path / "root", where=str(tmp_path / "told"))
    (tmp_path / "mounted").mkdir()
    assert run(text, tmp_path / "root", where=str(tmp_path / "told")).state == SUCCEEDED


def test_a_container_that_runs_too_long_is_ended(tmp_path) -> None:
    from kfp import kubernetes

    @dsl.container_component
    def wait(where: str):
        code = (
            "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); "
            "time.sleep(600)"
        )
        return small.python(code, where)

    @dsl.pipeline(name="waiting")
    def waiting(where: str):
        kubernetes.set_timeout(wait(where=where), 1)

    where = tmp_path / "pid"
    outcome = run(small.compiled(waiting, tmp_path), tmp_path / "root", where=str(where))
    assert outcome.state == FAILED
    assert "longer than its 1 s" in outcome.tasks["wait"].error
    assert not Path(f"/proc/{where.read_text()}").exists()
