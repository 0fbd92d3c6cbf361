"""Headrace from Python: a notebook or a script.

    from pipelines import api as headrace

    project = headrace.Project("workspace")
    run = project.run("digits", {"train.epochs": 5})
    run.metrics                         # {"accuracy": 0.98, ...}
    run.nodes                           # a pandas.DataFrame
    run.examples("test").head()
    run.model.predict(images)           # the servable, as it is served
    project.compare(run, "latest")
    project.lineage("digits@1").edges

Raises the errors that the command line prints (`pipelines.errors.HeadraceError`).
A run goes on in a process of its own, so that a notebook's TensorFlow, threads
and memory stay out of it.
"""

from __future__ import annotations

from pipelines.api.graph import Graph
from pipelines.api.model import Model
from pipelines.api.project import Project
from pipelines.api.run import Run

__all__ = ["Graph", "Model", "Project", "Run"]
