"""The `beam:` group: what each runner needs."""

from __future__ import annotations

import pytest

from pipelines import config
from pipelines.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["beam.runner=flink"], "runner flink needs address"),
        (["beam.runner=portable"], "runner portable needs job_endpoint"),
        (["beam.runner=spark"], "runner spark needs job_endpoint"),
        (["beam.runner=dataflow"], "runner dataflow needs project"),
        (["beam.workers=container"], "workers: container needs image"),
        (["beam.runner=flinc"], "Input should be 'local'"),
        (["beam.address=flink:8081"], "String should match pattern"),
        (["beam.job_endpoint=flink"], "String should match pattern"),
        (["beam.adress=http://flink:8081"], "Unknown key 'beam.adress'"),
        (["beam.parallelism=0"], "greater than or equal to 1"),
    ],
)
def test_what_is_refused(settings: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load("digits", settings)
    assert says in caught.value.headline


def test_dataflow_keeps_what_it_writes_in_between_in_a_bucket() -> None:
    given = {"project": "p", "region": "r", "temp_location": "folder", "image": "i"}
    with pytest.raises(ConfigError, match="begins with gs://"):
        config.load("digits", ["beam.runner=dataflow", *(f"beam.{k}={v}" for k, v in given.items())])
