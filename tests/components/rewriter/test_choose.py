"""The gate: exact bounds, and who qualifies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.rewriter import bounds, choose
from components.rewriter.choose import Policy
from components.rewriter.figures import Figures, SliceFigures

POLICY = Policy("latency", 1.0, 0.95)
GOOD = Figures(
    name="frozen",
    examples=1000,
    size_bytes=500,
    size_ratio=0.5,
    load_ms=10.0,
    latency_ms_p50=1.0,
    latency_ms_p95=2.0,
    throughput=900.0,
    latency_ratios=(0.8,) * 15,
    throughput_ratios=(1.2,) * 15,
    peak_memory_mb=100.0,
    accuracy=0.95,
    newly_wrong=0,
    newly_right=0,
    agreement=1.0,
    max_shift=0.0,
    batch_shift=1e-7,
    finite=True,
    slices=(SliceFigures("label=a", 600, 0.96, 0, 0), SliceFigures("label=b", 20, 0.9, 0, 0)),
)


def test_the_median_bound_is_an_order_statistic() -> None:
    """Of 15 rounds the 12th smallest covers the median with probability 0.982."""
    assert bounds.median_upper_bound([float(number) for number in range(1, 16)], 0.95) == 12.0


def test_too_few_rounds_bound_nothing() -> None:
    assert bounds.median_upper_bound([0.1, 0.1], 0.95) == float("inf")


def test_a_good_candidate_qualifies() -> None:
    verdict = choose.judge(GOOD, POLICY)
    assert verdict.qualified
    assert verdict.gain == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"finite": False}, "not all finite"),
        ({"newly_wrong": 30}, "may lose up to"),
        ({"batch_shift": 0.02}, "depend on what else is in the batch"),
        ({"examples": 100}, "100 examples are too few to bound the drop by 1 points"),
        ({"latency_ratios": (1.0,) * 15}, "no improvement beyond noise"),
        ({"latency_ratios": (0.7,) * 8 + (1.3,) * 7}, "no improvement beyond noise"),
        ({"latency_ratios": (0.5,)}, "no improvement beyond noise"),
    ],
)
def test_a_bad_candidate_is_refused_with_the_reason(change: dict, reason: str) -> None:
    verdict = choose.judge(replace(GOOD, **change), POLICY)
    assert not verdict.qualified
    assert reason in verdict.reason


def test_each_objective_looks_at_its_own_figure() -> None:
    slow_and_small = replace(GOOD, latency_ratios=(2.0,) * 15, throughput_ratios=(0.5,) * 15)
    assert choose.judge(slow_and_small, replace(POLICY, objective="size")).qualified
    assert not choose.judge(slow_and_small, replace(POLICY, objective="throughput")).qualified
    assert not choose.judge(replace(GOOD, size_ratio=1.0), replace(POLICY, objective="size")).qualified


def test_the_best_qualified_goes_on() -> None:
    slower = replace(GOOD, name="float16", latency_ratios=(0.9,) * 15)
    best_but_bad = replace(GOOD, name="int8", latency_ratios=(0.1,) * 15, newly_wrong=100)
    verdicts = [choose.judge(item, POLICY) for item in (slower, GOOD, best_but_bad)]
    name, reason = choose.choose(verdicts, POLICY)
    assert name == "frozen"
    assert "of 2 qualified" in reason


def of(name: str, ratio: float, size: int) -> choose.Verdict:
    return choose.judge(replace(GOOD, name=name, latency_ratios=(ratio,) * 15, size_bytes=size), POLICY)


@pytest.mark.parametrize(
    ("verdicts", "chosen"),
    [
        ([("frozen", 0.80, 500), ("float16", 0.50, 300)], "float16"),
        ([("frozen", 0.50, 500), ("float16", 0.52, 300)], "float16"),  # as quick, and smaller
        ([("frozen", 0.52, 310), ("float16", 0.50, 300)], "frozen"),  # as quick and as small, and simpler
        ([("frozen", 0.60, 310), ("float16", 0.50, 300)], "float16"),
    ],
)
def test_near_ties_go_to_the_smaller_then_to_the_simpler(verdicts, chosen: str) -> None:
    judged = [of(*item) for item in verdicts]
    assert choose.choose(judged, POLICY)[0] == chosen
    assert choose.choose(judged[::-1], POLICY)[0] == chosen


def test_a_run_off_decides_where_times_taken_apart_say_otherwise() -> None:
    """Taken apart, float16 looked quicker; by turns, frozen is, and is a third larger."""
    judged = [of("frozen", 0.52, 400), of("float16", 0.40, 300)]
    assert choose.contenders(judged, POLICY) == ["frozen", "float16"]
    quick, slow = [1.0, 1.1, 0.9] * 5, [1.3, 1.45, 1.2] * 5
    assert choose.choose(judged, POLICY, {"frozen": quick, "float16": slow})[0] == "frozen"
    # Not surely a tenth slower: as good, and smaller.
    unsure = [1.0, 1.3, 1.2] * 5
    name, reason = choose.choose(judged, POLICY, {"frozen": quick, "float16": unsure})
    assert name == "float16"
    assert "as good as frozen" in reason


def test_there_is_no_run_off_where_figures_tell() -> None:
    assert choose.contenders([of("frozen", 0.9, 400), of("float16", 0.2, 300)], POLICY) == []
    assert choose.contenders([of("frozen", 0.9, 400)], POLICY) == []
    by_size = replace(POLICY, objective="size")
    assert choose.contenders([of("frozen", 0.5, 400), of("float16", 0.5, 300)], by_size) == []


def test_for_size_the_smallest_goes_on_however_simple_another_is() -> None:
    """A size has no noise, so that a tenth is no tie."""
    by_size = replace(POLICY, objective="size")
    judged = [
        choose.judge(replace(GOOD, name=name, size_bytes=size, size_ratio=size / 1000), by_size)
        for name, size in (("frozen", 305), ("float16", 300), ("tflite", 300))
    ]
    assert choose.choose(judged, by_size)[0] == "float16"
    assert choose.choose(judged[::-1], by_size)[0] == "float16"


def test_the_best_are_in_the_order_of_the_run_off() -> None:
    judged = [of("frozen", 0.9, 400), of("float16", 0.40, 300), of("tflite", 0.45, 300), of("onnx", 1.5, 300)]
    times = {"float16": [1.3] * 15, "tflite": [1.0] * 15}
    assert choose.ranked(judged, "tflite", times) == ["tflite", "float16", "frozen"]
    assert choose.ranked(judged, "float16", {}) == ["float16", "tflite", "frozen"]


def test_a_ruined_slice_is_refused_though_the_mean_holds() -> None:
    ruined = replace(GOOD, newly_wrong=40, newly_right=60, slices=(SliceFigures("label=a", 90, 0.5, 40, 0),))
    verdict = choose.judge(ruined, replace(POLICY, max_drop=2.0))
    assert not verdict.qualified
    assert verdict.reason.startswith("on label=a it may lose up to 5")
    assert "(40 of 90 examples became wrong)" in verdict.reason


@pytest.mark.parametrize(
    ("examples", "wrong", "qualified", "needed"),
    [(58, 0, True, 59), (58, 2, True, 59), (59, 0, True, 0), (59, 1, False, 0), (20, 9, False, 59)],
)
def test_a_slice_is_judged_where_it_is_large_enough(examples, wrong, qualified, needed) -> None:
    """A smaller one does not stop a candidate, unless it is certain that it loses too much."""
    verdict = choose.judge(of_slice(examples, wrong), POLICY)
    assert (verdict.qualified, verdict.slices[0].needed) == (qualified, needed)


def of_slice(examples: int, wrong: int) -> Figures:
    return replace(GOOD, slices=(SliceFigures("label=a", examples, 0.9, wrong, 0),))


@pytest.mark.parametrize(("examples", "wrong"), [(59, 1), (90, 40), (500, 20), (20, 9)])
@pytest.mark.parametrize("stricter", [2.0, 0.1, 0.0])
def test_a_stricter_limit_of_slices_lets_no_more_pass(examples, wrong, stricter) -> None:
    """All of them are too small for so strict a limit, and yet tell what they told."""
    assert not choose.judge(of_slice(examples, wrong), POLICY).qualified
    verdict = choose.judge(of_slice(examples, wrong), replace(POLICY, max_slice_drop=stricter))
    assert verdict.slices[0].needed or stricter == 2.0
    assert not verdict.qualified


def test_significant_harm_convicts_at_a_limit_that_no_slice_can_show() -> None:
    strict = replace(POLICY, max_slice_drop=0.1)
    assert choose.judge(of_slice(500, 0), strict).qualified
    assert choose.judge(of_slice(500, 1), strict).qualified
    assert not choose.judge(of_slice(500, 8), strict).qualified


def test_too_few_examples_for_any_candidate_is_said_with_what_to_do() -> None:
    _, reason = choose.choose([choose.judge(replace(GOOD, examples=100), POLICY)], POLICY)
    assert "100 validation examples cannot bound a drop by 1 points; 299 could" in reason
    assert "data.splits.validation" in reason


def test_advice_is_in_the_words_of_whoever_asked() -> None:
    """A split that is larger does not help where no more of it is judged."""
    few = replace(GOOD, examples=100)
    for remedies, advice in (
        (choose.Remedies(more="raise rewrite.max_examples"), "Raise rewrite.max_examples, or widen rewrite"),
        (
            choose.Remedies("give more with --data", "", "widen --max-drop", "--max-drop"),
            "Give more with --data,",
        ),
        (choose.Remedies("", "", "widen --max-drop", "--max-drop"), "Widen --max-drop"),
    ):
        policy = replace(POLICY, remedies=remedies)
        verdict = choose.judge(few, policy)
        assert verdict.reason.endswith(str(remedies))
        assert advice in choose.choose([verdict], policy)[1]


def test_where_nothing_qualifies_the_original_goes_on() -> None:
    verdicts = [choose.judge(replace(GOOD, finite=False), POLICY)]
    assert choose.choose(verdicts, POLICY)[0] == "identity"


def test_figures_survive_json() -> None:
    import json
    from dataclasses import asdict

    assert Figures.from_json(json.dumps(asdict(GOOD))) == GOOD


def test_a_fixed_candidate_goes_on_though_it_is_slow_but_never_though_it_is_bad() -> None:
    fixed = replace(POLICY, fixed="frozen")
    slow = choose.judge(replace(GOOD, latency_ratios=(2.0,) * 15), fixed)
    assert not slow.qualified
    assert choose.choose([slow], fixed)[0] == "frozen"
    bad = choose.judge(replace(GOOD, newly_wrong=90), fixed)
    assert choose.choose([bad], fixed)[0] == "identity"
    unbuilt = choose.Verdict("frozen", False, "it could not be built: no", state="failed")
    assert choose.choose([unbuilt], fixed)[0] == "identity"


def test_a_fixed_candidate_that_does_not_go_on_is_named_with_the_reason() -> None:
    fixed = replace(POLICY, fixed="frozen")
    bad, good = (
        choose.judge(replace(GOOD, **change), fixed) for change in ({"finite": False}, {"name": "float16"})
    )
    name, reason = choose.choose([bad, good], fixed)
    assert name == "float16"
    assert reason.endswith("; not frozen, which rewrite.fixed names: its scores are not all finite numbers")
    assert "not frozen, which rewrite.fixed names: it was not tried" in choose.choose([], fixed)[1]


def test_that_nothing_at_all_is_lost_is_never_shown() -> None:
    none = replace(POLICY, max_drop=0.0)
    verdict = choose.judge(GOOD, none)
    assert not verdict.qualified
    assert verdict.reason.startswith("no number of examples shows")
    assert choose.choose([verdict], none)[1].endswith("Widen rewrite.max_drop")
