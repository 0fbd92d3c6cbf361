"""What is remembered is what Beam would say; and Beam still asks anew, else this can go."""

from __future__ import annotations

import inspect
import sys
import types
import xml.dom.minidom

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options import pipeline_options
from apache_beam.runners import common
from apache_beam.runners.worker import statecache
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate
from objsize import traverse

from components import beam_introspection as remembered

STATE = userstate.BagStateSpec("seen", VarIntCoder())
PARAM = beam.DoFn.StateParam(STATE)


class Plain(beam.DoFn):
    def process(self, element):
        yield element


class Stateful(beam.DoFn):
    def process(self, element, seen=PARAM):
        yield element


def with_state(element, seen=PARAM):
    return element


def dofns() -> list[beam.DoFn]:
    return [
        Plain(),
        Stateful(),
        Plain(),
        Stateful(),
        beam.Map(abs).fn,
        beam.Map(with_state).fn,
        beam.Map(abs).fn,
    ]


def test_specs_are_those_of_beam() -> None:
    ours = remembered.remembered_specs(remembered.SPECS)
    for _ in range(2):
        for dofn in dofns():
            assert ours(dofn) == remembered.SPECS(dofn)
    assert ours(Stateful()) == ({STATE}, set())
    ours(Stateful())[0].clear()
    assert ours(Stateful()) == ({STATE}, set())


def test_options_are_those_of_beam(monkeypatch) -> None:
    monkeypatch.setattr(pipeline_options.PipelineOptions, "__init__", remembered.OPTIONS)
    flags = ["--direct_num_workers=3", "--experiments=a", "--experiments=b"]
    expected = pipeline_options.PipelineOptions(flags, job_name="x").get_all_options()
    monkeypatch.setattr(
        pipeline_options.PipelineOptions, "__init__", remembered.remembered_options(remembered.OPTIONS)
    )
    for _ in range(2):
        made = pipeline_options.PipelineOptions(flags, job_name="x")
        assert made.get_all_options() == expected
        assert made.view_as(pipeline_options.DirectOptions).direct_num_workers == 3
        made.view_as(pipeline_options.DebugOptions).add_experiment("c")
    other = pipeline_options.PipelineOptions(["--direct_num_workers=4"])
    assert other.view_as(pipeline_options.DirectOptions).direct_num_workers == 4
    with pytest.raises(ValueError, match="iterable"):
        pipeline_options.PipelineOptions("--direct_num_workers=4")


def test_submodules_are_those_of_beam() -> None:
    def uses():
        return xml.dom.minidom, beam.transforms.core

    dependencies = [xml, beam, "no module"]
    ours = remembered.ModuleIndex()
    for _ in range(2):
        expected = remembered.SUBMODULES(uses.__code__, dependencies)
        assert ours.submodules(uses.__code__, dependencies) == expected
    assert xml.dom.minidom in expected


def test_sizes_are_those_of_beam() -> None:
    ours = remembered.GlobalsIndex()
    shared = {"globals": vars(inspect), "own": "x" * 1000}
    for value in ([1, 2.5, "text"], {"a": b"x" * 5000}, np.zeros(100), shared, Plain(), remembered):
        for _ in range(2):
            assert ours.deep_size(value) == remembered.DEEP_SIZE(value)
    assert 1000 < ours.deep_size(shared) < 2000


def test_globals_of_a_module_that_is_loaded_later_are_left_out_too(monkeypatch) -> None:
    ours = remembered.GlobalsIndex()
    late = types.ModuleType("late")
    late.__dict__["held"] = "x" * 100_000
    assert ours.deep_size([vars(late)]) > 100_000
    monkeypatch.setitem(sys.modules, "late", late)
    assert ours.deep_size([vars(late)]) == remembered.DEEP_SIZE([vars(late)]) < 1000


def test_a_pipeline_comes_out_the_same(monkeypatch) -> None:
    monkeypatch.setattr(userstate, "get_dofn_specs", remembered.remembered_specs(remembered.SPECS))
    monkeypatch.setattr(cloudpickle, "_find_imported_submodules", remembered.ModuleIndex().submodules)
    monkeypatch.setattr(statecache, "get_deep_size", remembered.GlobalsIndex().deep_size)
    monkeypatch.setattr(
        pipeline_options.PipelineOptions, "__init__", remembered.remembered_options(remembered.OPTIONS)
    )
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        numbers = pipeline | beam.Create([(number % 3, number) for number in range(20)])
        totals = numbers | beam.ParDo(Stateful()) | beam.CombinePerKey(sum)
        assert_that(totals, equal_to([(0, 63), (1, 70), (2, 57)]))


def test_beam_still_asks_anew(monkeypatch) -> None:
    """Where one of these fails, Beam remembers by itself: take that part out of `beam_introspection`."""
    assert beam.__version__ == remembered.VERSION, "measure again with this Beam, then raise VERSION"
    asked = []
    wrapper = common.MethodWrapper
    monkeypatch.setattr(common, "MethodWrapper", lambda *args: asked.append(args) or wrapper(*args))
    remembered.SPECS(Plain())
    first = len(asked)
    remembered.SPECS(Plain())
    assert first and len(asked) == 2 * first
    monkeypatch.setattr(pipeline_options.PipelineOptions, "__init__", remembered.OPTIONS)
    parsers = []
    parser = pipeline_options._BeamArgumentParser
    monkeypatch.setattr(
        pipeline_options, "_BeamArgumentParser", lambda **kwargs: parsers.append(1) or parser(**kwargs)
    )
    for _ in range(2):
        pipeline_options.PipelineOptions(["--direct_num_workers=3"])
    assert len(parsers) == 2
    listed = []
    monkeypatch.setattr(traverse, "_iter_modules_globals", lambda: listed.append(1) or [])
    for _ in range(2):
        remembered.DEEP_SIZE([1])
    assert len(listed) == 2
    assert "in list(sys.modules)" in inspect.getsource(remembered.SUBMODULES)
