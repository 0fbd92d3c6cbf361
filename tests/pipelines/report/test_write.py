"""What a report gathers: on recorded runs."""

from __future__ import annotations

from pipelines.lineage import query
from pipelines.report.write import gather


def test_a_run_that_was_cached_is_not_said_to_have_pushed(source, recorded) -> None:
    """What pushed the version is another run, perhaps of somebody else and of other code."""
    states = {
        run: {item.state for item in source.executions(source.run_executions(run)).values()}
        for run in recorded.runs
    }
    cached = next(run for run, found in states.items() if found == {"cached"})
    gathered = gather(source, query.find_run(source, cached))
    assert "by run" in gathered.why
    assert f"by run {cached}" not in gathered.why
