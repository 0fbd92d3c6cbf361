"""What is found out about an engine before a job is given to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.beam_stage import Beam
from pipelines.engines import answers, prepare, sizing
from pipelines.errors import EngineError
from tests.pipelines.engines.servers import grpc_server, job_manager, manager

JAR = "beam-runners-flink-1.20-job-server-2.77.0.jar"


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(answers, "_CONNECT_S", 1.0)


@pytest.fixture
def pool():
    with grpc_server() as address:
        yield address


def options(folder: Path, size: int | None = None, **settings: object) -> list[str]:
    return prepare.prepare(Beam(**settings), folder, [], size)


def flink(folder: Path, address: str, pool: str, size: int | None = None, **settings: object) -> list[str]:
    jar = folder / JAR
    jar.touch()
    given = {"runner": "flink", "address": address, "pool": pool, "job_server_jar": str(jar), **settings}
    return options(folder, size, **given)


def refusal(call) -> EngineError:
    with pytest.raises(EngineError) as caught:
        call()
    assert caught.value.headline and caught.value.place and caught.value.remedy
    assert caught.value.exit_code == 2
    return caught.value


def test_this_machine_needs_nothing(tmp_path) -> None:
    assert options(tmp_path) == []
    assert options(tmp_path, shards=3) == ["--headrace_shards=3"]


def test_workers_of_a_pool_on_this_machine(pool, tmp_path) -> None:
    assert options(tmp_path, parallelism=3, pool=pool) == [
        *("--environment_type=EXTERNAL", f"--environment_config={pool}", "--direct_num_workers=3")
    ]
    error = refusal(lambda: options(tmp_path, parallelism=3, pool=pool, worker_memory_mb=10**9))
    assert error.headline.startswith("The job would not fit: 3 Python workers")
    assert error.place == "beam.parallelism, host localhost"


def test_no_pool_on_this_machine(tmp_path, impatient) -> None:
    error = refusal(lambda: options(tmp_path, parallelism=3, pool="127.0.0.1:1"))
    assert (error.headline, error.place) == (
        "The pool of Beam workers cannot be reached",
        "beam.pool: 127.0.0.1:1",
    )


def test_a_flink_cluster_that_fits(tmp_path, pool) -> None:
    with job_manager() as address:
        found = flink(tmp_path, address, pool, size=40 << 20)
    (wheel,) = (tmp_path / prepare.FOLDER).glob("*.whl")
    assert found == [
        "--runner=FlinkRunner",
        f"--flink_master={address}",
        "--flink_version=1.20",
        f"--flink_job_server_jar={tmp_path / JAR}",
        "--parallelism=3",
        "--sdk_worker_parallelism=2",
        "--environment_type=EXTERNAL",
        f"--environment_config={pool}",
        "--max_cache_memory_usage_mb=100",
        f"--extra_package={wheel}",
        f"--headrace_marker={tmp_path / prepare.FOLDER / 'seen'}",
        "--headrace_shards=1",
    ]


def test_all_slots_are_used_where_the_input_is_large_or_its_size_unknown(tmp_path, pool) -> None:
    with job_manager(free=3) as address:
        assert "--parallelism=3" in flink(tmp_path, address, pool, size=None)
        large = flink(tmp_path, address, pool, size=1 << 30)
    assert "--parallelism=3" in large
    assert "--headrace_shards=16" in large


def test_no_cluster(tmp_path, pool) -> None:
    error = refusal(lambda: flink(tmp_path, "http://127.0.0.1:1", pool))
    assert error.headline.startswith("The Flink cluster cannot be reached")
    assert error.place == "beam.address: http://127.0.0.1:1"


def test_something_that_is_no_flink(tmp_path, pool) -> None:
    with job_manager(version="") as address:
        assert "no Flink job manager" in refusal(lambda: flink(tmp_path, address, pool)).headline


def test_a_cluster_without_task_managers(tmp_path, pool) -> None:
    with job_manager(managers=[]) as address:
        assert "no task manager" in refusal(lambda: flink(tmp_path, address, pool)).headline


@pytest.mark.parametrize(
    ("version", "settings", "says"),
    [
        ("1.20.5", {"version": "2.0"}, "The cluster is Flink 1.20, not 2.0"),
        ("1.17.2", {}, "Beam 2.77 has no job server for Flink 1.17"),
        ("2.0.1", {}, "The job server is for Flink 1.20, but Flink is 2.0"),
    ],
)
def test_versions_that_do_not_match(tmp_path, pool, version: str, settings, says: str) -> None:
    with job_manager(version=version) as address:
        assert refusal(lambda: flink(tmp_path, address, pool, **settings)).headline == says


def test_a_job_server_of_another_beam(tmp_path, pool) -> None:
    jar = tmp_path / "beam-runners-flink-1.20-job-server-2.60.0.jar"
    jar.touch()
    with job_manager() as address:
        error = refusal(lambda: flink(tmp_path, address, pool, job_server_jar=str(jar)))
    assert error.headline == "The job server is for Beam 2.60.0, but Beam is 2.77.0"
    assert error.remedy == f"Use {JAR}."


def test_a_jar_that_is_not_there(tmp_path, pool) -> None:
    with job_manager() as address:
        error = refusal(lambda: flink(tmp_path, address, pool, job_server_jar=str(tmp_path / "no" / JAR)))
    assert error.headline == "The job server's jar is not there"


def test_a_jar_that_cannot_be_fetched(tmp_path, pool, monkeypatch) -> None:
    from apache_beam.utils.subprocess_server import JavaJarServer

    def no_network(*args: object) -> None:
        raise RuntimeError("no network")

    monkeypatch.setattr(JavaJarServer, "local_jar", no_network)
    with job_manager() as address:
        error = refusal(lambda: flink(tmp_path, address, pool, job_server_jar=None))
    assert error.headline == "Beam's job server cannot be fetched: no network"
    assert error.place.endswith(JAR)


def test_no_java(tmp_path, pool, monkeypatch) -> None:
    monkeypatch.setattr(prepare.shutil, "which", lambda name: None)
    with job_manager() as address:
        assert "needs Java" in refusal(lambda: flink(tmp_path, address, pool)).headline


def test_no_job_server(tmp_path, pool, impatient) -> None:
    error = refusal(lambda: options(tmp_path, runner="portable", job_endpoint="127.0.0.1:1", pool=pool))
    assert error.headline == "The job server cannot be reached"
    assert error.place == "beam.job_endpoint: 127.0.0.1:1"


def test_something_that_is_no_job_server_and_no_pool(tmp_path) -> None:
    with grpc_server() as right, grpc_server(beam=False) as wrong:
        error = refusal(lambda: options(tmp_path, runner="portable", job_endpoint=wrong, pool=right))
        assert (error.headline, error.place) == (
            "What answers is no job server",
            f"beam.job_endpoint: {wrong}",
        )
        error = refusal(lambda: options(tmp_path, runner="portable", job_endpoint=right, pool=wrong))
        assert (error.headline, error.place) == (
            "What answers is no pool of Beam workers",
            f"beam.pool: {wrong}",
        )
    assert not list(tmp_path.iterdir())


def test_more_workers_than_this_machine_has_memory_for(tmp_path, pool) -> None:
    given = {"runner": "portable", "job_endpoint": pool, "pool": pool, "worker_memory_mb": 10**9}
    error = refusal(lambda: options(tmp_path, **given))
    assert error.headline.startswith("The job would not fit: 1 Python workers of 1000000000 MiB")
    assert error.place == "beam.workers_per_host, host localhost"


def test_no_pool_beside_an_engine_on_this_machine(tmp_path, impatient) -> None:
    with grpc_server() as server:
        error = refusal(lambda: options(tmp_path, runner="portable", job_endpoint=server, pool="127.0.0.1:1"))
    assert error.place == "beam.pool: 127.0.0.1:1"
    assert "python -m components.beam_pool --port 1" in error.remedy


def test_a_pool_on_the_hosts_of_a_cluster_elsewhere_is_not_asked_for_here(monkeypatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(answers, "check_pool", asked.append)
    prepare._check_pool(Beam(runner="flink", address="http://flink.example:8081"))
    assert asked == []
    prepare._check_pool(Beam(runner="flink", address="http://flink.example:8081", pool="pool.example:5"))
    assert asked == ["pool.example:5"]


def test_more_slots_than_are_free(tmp_path, pool) -> None:
    with job_manager(free=1) as address:
        error = refusal(lambda: flink(tmp_path, address, pool, parallelism=2))
    assert error.headline == "The job needs 2 slots, but 1 of the cluster's 4 are free"


def test_more_memory_than_a_host_has(tmp_path, pool) -> None:
    there = [manager("10.0.0.1", 2, 4_000, 1_000), manager("10.0.0.1", 2, 4_000, 1_000)]
    with job_manager(managers=there) as address:
        error = refusal(lambda: flink(tmp_path, address, pool, worker_memory_mb=1_000))
    assert "4 Python workers of 1000 MiB and task managers of 2000 MiB need 6000 MiB" in error.headline
    assert error.place == "beam.workers_per_host, host 10.0.0.1"
    with job_manager(managers=there) as address:
        assert flink(tmp_path, address, pool, worker_memory_mb=1_000, workers_per_host=1)


def test_more_data_than_the_disk_has_room_for(tmp_path) -> None:
    error = refusal(lambda: options(tmp_path, size=1 << 50, runner="portable", job_endpoint="127.0.0.1:1"))
    assert error.headline.startswith("The job would not fit: 4 times 1073741824 MiB")


def test_dataflow_does_not_see_a_local_workspace(tmp_path) -> None:
    given = {"project": "p", "region": "r", "temp_location": "gs://b/t", "image": "i"}
    assert "do not see a folder" in refusal(lambda: options(tmp_path, runner="dataflow", **given)).headline


def test_loopback_workers_are_sent_no_code(tmp_path) -> None:
    with grpc_server() as server:
        found = options(tmp_path, runner="portable", job_endpoint=server, workers="loopback", parallelism=2)
    assert "--environment_type=LOOPBACK" in found
    assert "--parallelism=2" in found
    assert not [option for option in found if "extra_package" in option]


def test_a_folder_for_what_jobs_write_in_between_is_made_and_marked(tmp_path) -> None:
    temp = tmp_path / "shared" / "temp"
    with grpc_server() as server:
        given = {"runner": "portable", "job_endpoint": server, "workers": "loopback"}
        found = options(tmp_path, **given, temp_location=str(temp))
    assert f"--temp_location={temp}" in found
    assert f"--headrace_marker={temp / prepare.FOLDER / 'seen'}" in found
    assert (temp / prepare.FOLDER / "seen").is_file()


def test_sizes_of_files_and_folders(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"12345")
    (tmp_path / "c").write_bytes(b"123")
    assert sizing.size_of(str(tmp_path)) == 8
    assert sizing.size_of(str(tmp_path / "c")) == 3
    for unknown in (None, "s3://bucket/x", str(tmp_path / "*.csv")):
        assert sizing.size_of(unknown) is None


def test_spark_and_dataflow_by_their_options() -> None:
    from pipelines.engines import options as of

    spark = of.of(Beam(runner="spark", address="spark://host:7077"), of.Job(job_server_jar="a.jar"))
    assert spark[:3] == [
        "--runner=SparkRunner",
        "--spark_master_url=spark://host:7077",
        "--spark_job_server_jar=a.jar",
    ]
    given = {"project": "p", "region": "r", "temp_location": "gs://b/t", "image": "i:1"}
    assert of.of(Beam(runner="dataflow", **given), of.Job(parallelism=5)) == [
        *("--runner=DataflowRunner", "--project=p", "--region=r", "--max_num_workers=5"),
        *("--sdk_container_image=i:1", "--sdk_location=container"),
        *("--max_cache_memory_usage_mb=100", "--temp_location=gs://b/t"),
    ]


def test_options_are_known_to_beam() -> None:
    """Beam ignores an option that it does not know."""
    from apache_beam.options.pipeline_options import PipelineOptions

    from pipelines.engines import options as of
    from pipelines.runners import beam_job  # noqa: F401  (defines ours)

    job = of.Job(2, 2, 3, "1.20", "a.jar", Path("w.whl"), (Path("m"),))
    places = {"address": "http://h:1", "job_endpoint": "h:1", "temp_location": "gs://b/t", "image": "i"}
    for runner in ("flink", "portable", "spark", "dataflow"):
        settings = Beam(runner=runner, project="p", region="r", bundle=5, **places)
        given = of.of(settings, job)
        known = PipelineOptions(given).get_all_options(drop_default=True)
        names = {option.removeprefix("--").partition("=")[0] for option in given}
        # Read by the job server, not by Beam in Python.
        names -= {"max_bundle_size"}
        assert names <= set(known) | {"extra_package"}, names - set(known)


def test_an_engine_is_asked_without_using_grpc_in_the_process_that_forks_nodes() -> None:
    script = """
from pipelines.engines import answers
from pipelines.errors import EngineError
answers._CONNECT_S = 0.5
for check in (answers.check_pool, answers.check_job_server):
    try:
        check("localhost:9")
    except EngineError as error:
        print(error.headline)
import subprocess
import sys
from pathlib import Path
print([path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")])
"""
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    first, second, threads = said.splitlines()
    assert first == "The pool of Beam workers cannot be reached"
    assert second == "The job server cannot be reached"
    assert not [name for name in ("grpc", "event_engine", "lifeguard") if name in threads], threads
