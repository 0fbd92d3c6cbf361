"""Which policy a device gets, and the loss scale."""

from __future__ import annotations

import pytest
import tensorflow as tf

from modules.training import devices, precision


@pytest.mark.parametrize(
    ("capability", "policy"),
    [((9, 0), "mixed_bfloat16"), ((8, 0), "mixed_bfloat16"), ((7, 5), "mixed_float16"), ((6, 1), "float32")],
)
def test_gpus_by_compute_capability(capability: tuple[int, int], policy: str) -> None:
    choice = precision.for_gpu(capability)
    assert choice.policy == policy
    assert f"{capability[0]}.{capability[1]}" in choice.reason


def test_processor_flags() -> None:
    assert devices.cpu_bfloat16_units("flags : sse avx2\n") == []
    assert devices.cpu_bfloat16_units("x : y\nflags\t: avx2 avx512_bf16 amx_bf16\n") == [
        "amx_bf16",
        "avx512_bf16",
    ]


@pytest.mark.parametrize(
    ("units", "gains", "policy"),
    [
        ([], {}, "float32"),
        (["avx512_bf16"], {"convolution": 2.0, "matrix product": 1.5}, "mixed_bfloat16"),
        (["avx512_bf16"], {"convolution": 2.0, "matrix product": 1.1}, "float32"),
    ],
)
def test_bfloat16_on_a_processor_must_pay(
    units: list[str], gains: dict[str, float], policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "has_tpu", lambda: False)
    monkeypatch.setattr(devices, "gpu_compute_capability", lambda: None)
    monkeypatch.setattr(devices, "cpu_bfloat16_units", lambda: units)
    monkeypatch.setattr(precision, "_PROBES", {name: name for name in gains})
    monkeypatch.setattr(precision, "_gain", gains.__getitem__)
    assert precision.choose("auto", deterministic=False).policy == policy
    assert precision.choose("auto", deterministic=True).policy == "float32"
    assert precision.choose("mixed_float16", deterministic=True).policy == "mixed_float16"


def test_the_loss_scale_halves_on_overflow_and_doubles_in_good_times() -> None:
    scale = precision.LossScale(initial=8.0, growth_steps=2)
    seen = []
    for finite in (True, True, False, True, False, False, False, False):
        scale.update(tf.constant(finite))
        seen.append(float(scale.scale))
    assert seen == [8.0, 16.0, 8.0, 8.0, 4.0, 2.0, 1.0, 1.0]
