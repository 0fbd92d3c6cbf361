"""The process that builds or judges one candidate, so that a crash loses that candidate only.

python -m components.rewriter.worker build TASK.json
python -m components.rewriter.worker judge TASK.json
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from components.rewriter import measure
from components.rewriter.base import Contract, TrainedModel
from components.rewriter.techniques import TECHNIQUES
from components.serving import examples
from components.serving.servable import version_folder


def build(task: dict[str, Any]) -> None:
    """Writes the candidate `task["technique"]` of the model `task["model"]` to `task["candidate"]`."""
    trained = TrainedModel(task["model"], Contract.from_json(task["contract"]))
    folder = Path(task["candidate"])
    folder.mkdir(parents=True)
    TECHNIQUES[task["technique"]](trained, version_folder(folder))
    trained.servable(task["technique"]).write(folder)


def judge(task: dict[str, Any]) -> None:
    """Writes `figures.json` and `scores.npy` beside the candidate's files."""
    records = examples.read_split(task["examples"], task["split"], task["max_examples"])
    figures, scores = measure.measure(task["candidate"], task["original"], records, task["label"])
    folder = Path(task["candidate"])
    measure.write_scores(folder / "scores.npy", scores)
    (folder / "figures.json").write_text(json.dumps(asdict(figures)))


COMMANDS = {"build": build, "judge": judge}


def main() -> None:
    """Entry point of the process."""
    command, path = sys.argv[1:]
    COMMANDS[command](json.loads(Path(path).read_text()))


if __name__ == "__main__":
    main()
