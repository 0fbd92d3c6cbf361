"""A small chain of real nodes in a user's folder, whose right outputs can be computed by hand.

Read(data, factor) -> Count(Read) -> Join(Read, Count), and Alone(word).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODULES = {
    "read": """
from pathlib import Path
from tfx import v1 as tfx
from tfx.dsl.component.experimental.decorators import component
@component
def Read(path: tfx.dsl.components.Parameter[str], digest: tfx.dsl.components.Parameter[str],
         factor: tfx.dsl.components.Parameter[int], code: tfx.dsl.components.Parameter[str],
         out: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Schema]):
    from chain import near
    data = Path(path).read_bytes()
    Path(out.uri, "text").write_text(near.label(f"{sum(data) * factor} {READ}"))
READ = 0
""",
    "near": "from chain import deep\nNEAR = 0\ndef label(text):\n    return f'{text} {NEAR} {deep.DEEP}'\n",
    "deep": "DEEP = 0\n",
    "count": """
from pathlib import Path
from tfx import v1 as tfx
from tfx.dsl.component.experimental.decorators import component
@component
def Count(source: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Schema],
          code: tfx.dsl.components.Parameter[str],
          out: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Schema]):
    from . import far
    text = Path(source.uri, "text").read_text()
    Path(out.uri, "text").write_text(f"{len(text)} {far.FAR} {COUNT}")
COUNT = 0
""",
    "far": "FAR = 0\n",
    "join": """
from pathlib import Path
from tfx import v1 as tfx
from tfx.dsl.component.experimental.decorators import component
import chain.deep as deep
@component
def Join(left: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Schema],
         right: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Schema],
         code: tfx.dsl.components.Parameter[str],
         out: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Schema]):
    parts = [Path(item.uri, "text").read_text() for item in (left, right)]
    Path(out.uri, "text").write_text("+".join([*parts, str(deep.DEEP), str(JOIN)]))
JOIN = 0
""",
    "alone": """
import json
from pathlib import Path
from tfx import v1 as tfx
from tfx.dsl.component.experimental.decorators import component
@component
def Alone(config: tfx.dsl.components.Parameter[str], code: tfx.dsl.components.Parameter[str],
          out: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Schema]):
    Path(out.uri, "text").write_text(f"{sorted(json.loads(config).items())} {ALONE}")
ALONE = 0
""",
    "unrelated": "UNRELATED = 0\n",
}
CODE = {
    "Read": ("read", "near", "deep"),
    "Count": ("count", "far"),
    "Join": ("join", "deep"),
    "Alone": ("alone",),
}
"""Node -> modules that it runs, by hand."""

INPUTS = {"Read": (), "Count": ("Read",), "Join": ("Read", "Count"), "Alone": ()}


@dataclass
class State:
    """What the project is like now, beside its files."""

    values: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MODULES, 0))
    data_name: str = "data-0"
    data: bytes = b"some data to be read"
    factor: int = 2
    config: dict[str, int] = field(default_factory=lambda: {"a": 1, "b": 2, "c": 3})
    version: str = "1.0"

    def outputs(self) -> dict[str, str]:
        """What each node should write."""
        v = self.values
        read = f"{sum(self.data) * self.factor} {v['read']} {v['near']} {v['deep']}"
        count = f"{len(read)} {v['far']} {v['count']}"
        return {
            "Read": read,
            "Count": count,
            "Join": f"{read}+{count}+{v['deep']}+{v['join']}",
            "Alone": f"{sorted(self.config.items())} {v['alone']}",
        }

    def told(self, node: str) -> tuple[Any, ...]:
        """All of a node's key that is not its inputs."""
        code = tuple(self.values[name] for name in CODE[node])
        own: Mapping[str, tuple[Any, ...]] = {
            "Read": (self.data_name, self.data, self.factor),
            "Alone": (tuple(sorted(self.config.items())),),
        }
        return (node, code, self.version, own.get(node, ()))


def write(project: Path, state: State) -> None:
    """Writes the whole project."""
    package = project / "chain"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for name, text in MODULES.items():
        (package / f"{name}.py").write_text(text.lstrip())
    (project / state.data_name).write_bytes(state.data)


def pipeline(project: Path, workspace: Path, state: State) -> Any:
    """TFX's pipeline of the chain; to be called in the project's folder."""
    from chain import alone, count, join, read
    from tfx import v1 as tfx

    from pipelines import fingerprint, inputs

    def code(module: Any) -> str:
        return fingerprint.of_modules([module.__name__])

    path = project / state.data_name
    first = read.Read(path=str(path), digest=inputs.digest([str(path)]), factor=state.factor, code=code(read))
    second = count.Count(source=first.outputs["out"], code=code(count))
    third = join.Join(left=first.outputs["out"], right=second.outputs["out"], code=code(join))
    other = alone.Alone(config=json.dumps(state.config, sort_keys=True), code=code(alone))
    return tfx.dsl.Pipeline(
        pipeline_name="chain",
        pipeline_root=str(workspace / "artifacts" / "chain"),
        components=[first, second, third, other],
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(workspace / "metadata.db")
        ),
    )
