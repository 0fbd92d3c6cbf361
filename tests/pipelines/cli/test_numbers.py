"""Numbers on the command line."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from pipelines.cli.numbers import Number


@click.command()
@click.option("--share", type=Number(0, 1))
def command(share: float) -> None:
    click.echo(repr(share))


@pytest.mark.parametrize("given", ["nan", "NaN", "inf", "-0.1", "2", "x"])
def test_what_is_no_number_within_the_limits_is_refused(given: str) -> None:
    done = CliRunner().invoke(command, ["--share", given])
    assert done.exit_code == 2
    assert "--share" in done.output


def test_a_number_is_taken() -> None:
    assert CliRunner().invoke(command, ["--share", "0.5"]).output == "0.5\n"
