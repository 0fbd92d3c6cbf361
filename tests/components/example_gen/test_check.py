"""What makes a record unusable, in words."""

from __future__ import annotations

import pytest

from components.example_gen import check
from components.example_gen.request import FeatureRule

RULES = (FeatureRule("image", "image"), FeatureRule("label", "string"))


def test_a_sound_record_has_no_fault(make_example, png) -> None:
    assert check.fault(make_example(image=png(), label="cat"), RULES) is None


@pytest.mark.parametrize("record", [b"", b"\xff\xff\xff", b"not an example"])
def test_bytes_that_are_no_example(record: bytes) -> None:
    assert check.fault(record, RULES) == "it is no tf.train.Example with features"


def test_a_missing_feature_names_what_is_present(make_example, png) -> None:
    assert check.fault(make_example(image=png(), name="x"), RULES) == (
        "feature 'label' is missing; present: image, name"
    )


def test_a_wrong_type_says_expected_and_received(make_example, png) -> None:
    assert check.fault(make_example(image=png(), label=3), RULES) == (
        "feature 'label' should hold bytes; received integers"
    )


def test_several_values_are_counted(make_example, png) -> None:
    assert check.fault(make_example(image=png(), label=["a", "b"]), RULES) == (
        "feature 'label' should hold one value; received 2"
    )


@pytest.mark.parametrize("kind", ["string", "any", "text"])
def test_a_label_that_is_no_text_is_a_fault(make_example, kind: str) -> None:
    rules = (FeatureRule("label", kind),)
    assert check.fault(make_example(label=b"caf\xe9"), rules) == "feature 'label' is no UTF-8 text"
    assert check.fault(make_example(label="caf\u00e9"), rules) is None


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_a_truncated_image_is_found(make_example, png, cut: float) -> None:
    import numpy as np

    noise = np.random.default_rng(3).integers(0, 256, (32, 32, 3))
    whole = png(noise)
    reason = check.fault(make_example(image=whole[: int(len(whole) * cut)], label="a"), RULES)
    assert reason is not None
    assert "is no JPEG, PNG, GIF or BMP image that decodes" in reason


def test_label_of_keeps_bytes_that_are_no_text(make_example, png) -> None:
    assert check.label_of(make_example(image=png(), label=b"caf\xe9"), "label") == "caf\\xe9"
