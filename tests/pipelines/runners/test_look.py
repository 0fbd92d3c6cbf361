"""Looks into the cache, what counts as a hit there, and what of TFX is changed for them."""

# No `from __future__ import annotations`: TFX reads the annotations of component functions.
import ast
import os
import shutil
from pathlib import Path

import pytest
import tfx
from tfx import v1 as tfx_v1
from tfx.dsl.compiler import compiler, constants
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.portable import cache_utils, runtime_parameter_utils

from pipelines import digests
from pipelines.lineage.database import Database
from pipelines.lineage.store import Store
from pipelines.runners import cached, look
from pipelines.runners.local import LocalRunner
from pipelines.runners.node import RunFiles

OutputArtifact, InputArtifact = tfx_v1.dsl.components.OutputArtifact, tfx_v1.dsl.components.InputArtifact
Parameter, Schema = tfx_v1.dsl.components.Parameter, tfx_v1.types.standard_artifacts.Schema


@component
def Make(text: Parameter[str], out: OutputArtifact[Schema]):
    Path(out.uri, "text").write_text(text)


@component
def Copy(source: InputArtifact[Schema], out: OutputArtifact[Schema]):
    Path(out.uri, "text").write_text(Path(source.uri, "text").read_text())


class Chain:
    """Make -> Copy, run in one workspace again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.metadata = folder, Database(folder / "metadata.db")
        self.runs = 0

    def compiled(self, text: str):
        make = Make(text=text).with_id("make")
        copy = Copy(source=make.outputs["out"]).with_id("copy")
        pipeline = tfx_v1.dsl.Pipeline(
            pipeline_name="p",
            pipeline_root=str(self.folder / "root"),
            components=[make, copy],
            enable_cache=True,
            metadata_connection_config=tfx_v1.orchestration.metadata.sqlite_metadata_connection_config(
                str(self.metadata.path)
            ),
        )
        ir = compiler.Compiler().compile(pipeline)
        self.runs += 1
        run_id = f"r-{self.runs}"
        runtime_parameter_utils.substitute_runtime_parameter(
            ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id}
        )
        (self.folder / run_id).mkdir()
        return ir, RunFiles(self.folder / run_id, self.metadata)

    def look(self, text: str = "a") -> dict[str, str]:
        ir, files = self.compiled(text)
        return cached.looked_up(ir, files, (), lambda: None)

    def run(self, text: str = "a") -> dict[str, str]:
        """Looks, then runs what is left; node -> its state in the record."""
        ir, files = self.compiled(text)
        finished = cached.take(ir, files, (), lambda: None)
        assert LocalRunner(files, lambda: None).run_with_ir(ir, finished=finished)
        with Store(self.metadata) as store:
            nodes = store.nodes(files.folder.name)
        assert len(nodes) == 2  # what a look began, the run took up
        return {node.node: node.state for node in nodes}

    def output(self, node: str) -> Path:
        with Store(self.metadata) as store:
            found = {item.node: item for item in store.nodes(f"r-{self.runs}")}
        return Path(found[node].outputs["out"][0].uri, "text")


@pytest.fixture
def chain(tmp_path, monkeypatch) -> Chain:
    monkeypatch.setattr(digests, "_file", None)
    digests.remember_in(tmp_path)
    return Chain(tmp_path)


def test_a_look_finds_what_a_run_would(chain) -> None:
    assert chain.look() == {"make": look.MISS, "copy": look.WAITS}
    assert chain.run() == {"make": "complete", "copy": "complete"}
    assert chain.look() == {"make": "cached", "copy": "cached"}
    assert chain.run() == {"make": "cached", "copy": "cached"}
    assert chain.look("b") == {"make": look.MISS, "copy": look.WAITS}


def test_a_look_that_fails_finds_nothing(chain, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(look, "look", fail)
    assert chain.look() == {}


HARM = {
    "deleted": lambda path: path.unlink(),
    "folder deleted": lambda path: shutil.rmtree(path.parent),
    "truncated": lambda path: os.truncate(path, 0),
    "altered": lambda path: path.write_text("x"),
    "added to": lambda path: path.with_name("more").touch(),
    "renamed": lambda path: path.rename(path.with_name("other")),
}


def test_outputs_that_are_not_what_was_published_are_a_miss(chain) -> None:
    """One harm after another, each to the output that the last one made necessary."""
    chain.run()
    for name, harm in HARM.items():
        harm(chain.output("copy"))
        assert chain.run() == {"make": "cached", "copy": "complete"}, name
        assert chain.output("copy").read_text() == "a"
    os.utime(chain.output("copy"), (1.0, 1.0))
    assert chain.run() == {"make": "cached", "copy": "cached"}


def test_an_older_sound_output_is_taken_before_a_newer_damaged_one(chain) -> None:
    chain.run()
    first = chain.output("copy")
    first.rename(first.with_name("aside"))
    assert chain.run()["copy"] == "complete"
    second = chain.output("copy")
    first.with_name("aside").rename(first)
    second.unlink()
    assert chain.run()["copy"] == "cached"
    assert chain.output("copy") == first


def test_tfx_still_takes_outputs_by_their_folder_alone(tmp_path) -> None:
    """When this fails, TFX looks at contents itself: `verify_cached_outputs` can go."""
    from tfx.types import artifact_utils

    artifact = Schema()
    artifact.uri = str(tmp_path)  # empty, where there should be files
    artifact_utils.verify_artifacts({"out": [artifact]})
    assert "verify_artifacts" in Path(cache_utils.__file__).read_text()


def test_tfx_components_still_import_all_that_is_heavy() -> None:
    """When this fails, `keep_heavy_out` can go."""
    folder = Path(tfx.__file__).parent / "components"

    def imported(path: Path) -> set[str]:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        return plain | {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}

    assert "tfx.components.evaluator.component" in imported(folder / "__init__.py")
    assert "tensorflow_model_analysis" in imported(folder / "evaluator" / "component.py")
