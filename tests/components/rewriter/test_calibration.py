"""Calibration inputs of several batches as one."""

from __future__ import annotations

import numpy as np

from components.rewriter.base import joined


def test_texts_of_several_lengths_end_in_zeros() -> None:
    batches = [np.array([[1.0, 2.0]]), np.array([[3.0, 4.0, 5.0], [6.0, 7.0, 8.0]])]
    assert joined(batches).tolist() == [[1, 2, 0], [3, 4, 5], [6, 7, 8]]


def test_inputs_of_one_shape_stay_as_they_are() -> None:
    batches = [np.ones((2, 3, 4)), np.zeros((1, 3, 4))]
    np.testing.assert_array_equal(joined(batches), np.concatenate(batches))
