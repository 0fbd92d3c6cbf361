"""The `beam:` group of an experiment file: where the data parts of the chain run.

    beam: {runner: flink, address: "http://flink:8081", workers: pool}

Nothing here changes what is computed, so none of it is part of a cache key.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pipelines.stage import Stage

BeamRunner = Literal["local", "flink", "portable", "spark", "dataflow"]
HostPort = Annotated[str, Field(pattern=r"^(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$")]
WebAddress = Annotated[str, Field(pattern=r"^(https?|spark)://[^/@\s]+(/\S*)?$|^local(\[[0-9*]+\])?$")]


class Beam(Stage):
    """Where Beam's parts run (ExampleGen, StatisticsGen, Transform, Evaluator), and how wide."""

    runner: BeamRunner = Field(
        "local",
        description="local: on this machine. flink: a Flink cluster, by Beam's job server. portable: any "
        "job server at job_endpoint. spark, dataflow: options are checked; neither was run with Headrace.",
    )
    address: WebAddress | None = Field(
        None, description="Flink's REST address, such as http://flink:8081; Spark's master URL."
    )
    job_endpoint: HostPort | None = Field(
        None, description="A job server that runs already; without, Beam starts one for each job."
    )
    job_server_jar: str | None = Field(
        None, description="Beam's job server for Flink or Spark; without, Beam fetches it from Maven Central."
    )
    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")] | None = Field(
        None, description="Of Flink, such as '1.20'; the cluster's own when not given."
    )
    workers: Literal["pool", "loopback", "process", "container"] = Field(
        "pool",
        description="What runs our Python. pool: python -m components.beam_pool beside each task manager. "
        "process: started by the engine with this Python's path. container: image. loopback: processes "
        "of this machine, for trying out.",
    )
    pool: HostPort = Field("localhost:50000", description="The pool, as each task manager reaches it.")
    image: str | None = Field(
        None,
        description="Container image for workers, with the locked packages; see kubeflow/worker/Dockerfile.",
    )
    temp_location: str | None = Field(
        None, description="Folder or URL that all workers see, for what jobs write in between."
    )
    parallelism: Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"] = Field(
        "auto",
        description="auto: by the input's size, at most the free slots. With runner local, a number "
        "is so many workers of the pool; auto is this process.",
    )
    workers_per_host: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = Field(
        "auto", description="Python workers beside each task manager; auto: one for each of its slots."
    )
    worker_memory_mb: Annotated[int, Field(ge=256)] = Field(
        1536,
        description="What a worker may need, MiB; where hosts have too little, the job is refused.",
    )
    shards: Annotated[int, Field(ge=1, le=100_000)] | Literal["auto"] = Field(
        "auto", description="Files per split. auto: one for each 64 MiB of input; one on this machine."
    )
    cache_mb: Annotated[int, Field(ge=0)] = Field(
        100, description="Of side inputs, such as a vocabulary, that each worker keeps, MiB."
    )
    bundle: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Flink: most elements of a bundle; its own default when not given."
    )
    project: str | None = Field(None, description="Dataflow's.")
    region: str | None = Field(None, description="Dataflow's.")
    args: list[str] = Field(
        [], description="Further Beam pipeline options, such as --direct_num_workers=2; they come last."
    )

    @model_validator(mode="after")
    def _has_what_its_runner_needs(self) -> Beam:
        needed = {
            "flink": ("address",),
            "portable": ("job_endpoint",),
            "spark": ("job_endpoint",) if self.address is None else (),
            "dataflow": ("project", "region", "temp_location", "image"),
        }
        for name in needed.get(self.runner, ()):
            if getattr(self, name) is None:
                raise ValueError(f"runner {self.runner} needs {name}")
        if self.workers == "container" and self.image is None:
            raise ValueError("workers: container needs image")
        if self.runner == "dataflow" and not str(self.temp_location).startswith("gs://"):
            raise ValueError("runner dataflow needs a temp_location that begins with gs://")
        return self
