"""The catalogue and the code agree."""

from __future__ import annotations

from components.rewriter import catalogue
from components.rewriter.techniques import BUILDS
from components.serving.servable import CORE_FILES


def test_every_technique_has_code_and_a_runtime() -> None:
    assert set(catalogue.TECHNIQUES) == set(BUILDS)
    assert {item.runtime for item in catalogue.TECHNIQUES.values()} <= {"saved_model", *CORE_FILES}


def test_every_target_loads_something_for_every_objective() -> None:
    for target in catalogue.LOADS:
        for objective in ("latency", "size", "throughput"):
            tried = catalogue.automatic(target, objective)
            assert tried
            assert set(tried) <= set(catalogue.techniques_for(target))


def test_speed_on_savedmodels_tries_no_int8() -> None:
    assert catalogue.automatic("tf_serving", "latency") == ["frozen", "float16", "tf_trt_float16"]


def test_for_size_the_smallest_are_tried_wherever_they_load() -> None:
    for target in ("tf_serving", "tf_serving_tflite"):
        assert {"int7_deflated", "int6_deflated"} <= set(catalogue.automatic(target, "size"))
    assert not {"int7_deflated", "int8_static"} & set(catalogue.automatic("tf_serving_tflite", "latency"))
