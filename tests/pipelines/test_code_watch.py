"""Code that is edited while a run goes on: what has run is what the key says, or nothing is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import code_watch, fingerprint
from pipelines.errors import CodeChangedError
from pipelines.lineage.records import NodeRecord
from pipelines.lineage.store import Store

NODE = """
import os
from pathlib import Path
from tfx import v1 as tfx
from tfx.dsl.component.experimental.decorators import component
{above}
@component
def Late(code_fingerprint: tfx.dsl.components.Parameter[str],
         out: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Schema]):
    helper = Path(__file__).with_name("helper.py")
    if "EDIT" in os.environ:
        helper.write_text(os.environ["EDIT"])
    {inside}
    Path(out.uri, "text").write_text(str(theirs.helper.VALUE))
"""
RUN = """
import json, os, sys
from pathlib import Path
import tfx.v1 as tfx
from tfx.dsl.compiler import compiler, constants
from tfx.orchestration.portable import runtime_parameter_utils
from pipelines import code_watch, fingerprint
from pipelines.lineage.database import Database
from pipelines.runners.files import RunFiles
from pipelines.runners.local import LocalRunner

root, helper = Path.cwd(), Path("theirs/helper.py")

def run(run_id, before="", **variables):
    os.environ.update(variables)
    code_watch.begin(["theirs.late"])
    from theirs import late
    node = late.Late(code_fingerprint=fingerprint.of_modules(["theirs.late"]))
    config = tfx.orchestration.metadata.sqlite_metadata_connection_config(str(root / "metadata.db"))
    ir = compiler.Compiler().compile(tfx.dsl.Pipeline(
        "late", str(root / "artifacts"), components=[node], enable_cache=True,
        metadata_connection_config=config))
    values = {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id}
    runtime_parameter_utils.substitute_runtime_parameter(ir, values)
    folder = root / "runs" / run_id
    folder.mkdir(parents=True)
    if before:
        helper.write_text(before)
    return LocalRunner(RunFiles(folder, Database(root / "metadata.db")), lambda: None).run_with_ir(ir)

for told in json.loads(sys.argv[1]):
    helper.write_text("VALUE = 1\\n")
    if not os.fork():  # so that each run loads the project anew
        os._exit(0 if run(**told) else 1)
    assert os.WEXITSTATUS(os.wait()[1]) in (0, 1)
"""
IMPORT = "import theirs.helper"


class Project:
    """A folder with one node, whose helper module is imported above the node or inside it."""

    def __init__(self, root: Path, *, imported: str) -> None:
        self.root = root
        (root / "theirs").mkdir()
        (root / "theirs" / "__init__.py").write_text("")
        (root / "theirs" / "helper.py").write_text("VALUE = 1\n")
        above, inside = (IMPORT, "") if imported == "above" else ("", IMPORT)
        (root / "theirs" / "late.py").write_text(NODE.format(above=above, inside=inside).lstrip())
        (root / "run.py").write_text(RUN.lstrip())

    def run(self, *runs: dict[str, str]) -> None:
        """One after the other; the helper is as it was at the beginning of each."""
        subprocess.run(
            [sys.executable, "run.py", json.dumps(runs)],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(fingerprint.PROJECT), "TF_CPP_MIN_LOG_LEVEL": "3"},
            check=True,
        )

    def log(self, run_id: str) -> str:
        return (self.root / "runs" / run_id / "Late.log").read_text()

    def node(self, run_id: str) -> NodeRecord:
        with Store(self.root / "metadata.db") as store:
            return store.nodes(run_id)[0]

    def answer(self, run_id: str) -> str:
        return Path(self.node(run_id).outputs["out"][0].uri, "text").read_text()


def test_code_that_is_edited_and_then_loaded_fails_its_node_and_is_in_no_cache(tmp_path: Path) -> None:
    project = Project(tmp_path, imported="inside")
    project.run(
        {"run_id": "edited-inside", "EDIT": "VALUE = 2\n"},
        {"run_id": "edited-before", "before": "VALUE = 3\n"},
        {"run_id": "sound"},
        {"run_id": "again", "before": "# the same, with a comment\nVALUE = 1\n"},
    )
    assert project.node("edited-inside").state == "failed"
    for run_id in ("edited-inside", "edited-before"):
        assert "The code of node Late was changed after this run had begun" in project.log(run_id)
        assert "theirs/helper.py" in project.log(run_id)
    assert (project.node("sound").state, project.answer("sound")) == ("complete", "1")
    assert project.node("again").state == "cached"


def test_code_that_was_loaded_before_it_was_edited_does_no_harm(tmp_path: Path) -> None:
    project = Project(tmp_path, imported="above")
    project.run({"run_id": "loaded", "EDIT": "VALUE = 2\n"})
    assert (project.node("loaded").state, project.answer("loaded")) == ("complete", "1")


def test_bytecode_of_another_source_of_the_same_second_and_size_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text("VALUE = 1\n")
    found = path.stat()
    asked = [sys.executable, "-c", "import mine; print(mine.VALUE)"]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def answer() -> str:
        return subprocess.run(asked, check=True, capture_output=True, text=True, env=variables).stdout.strip()

    assert answer() == "1"
    path.write_text("VALUE = 2\n")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert answer() == "1", "Python looks closer than it did"
    code_watch.begin(["mine"])
    assert answer() == "2"


def test_a_process_that_runs_older_code_of_ours_than_the_files_hold_is_told_to_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(fingerprint.__file__).resolve()
    code_watch.begin([])
    monkeypatch.setitem(code_watch._at_import, path, (0, 0, 0, 0))
    with pytest.raises(CodeChangedError, match="since this process began") as told:
        code_watch.begin([])
    assert told.value.place == str(path)
