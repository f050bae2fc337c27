"""Piecewise linear functions."""

from __future__ import annotations

import numpy
import pytest

import returnn.frontend as rf
from returnn.tensor import Dim
from returnn.util.errors import DimError


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_is_interpolation(backend):
    dim = Dim(9, name="x")
    values = numpy.linspace(-2, 8, 9).astype("float32")
    points = {5: -3.0, 0: 1.0, 2: 2.5, 6.5: 0.0}
    with rf.backend_ctx(backend):
        out = rf.PiecewiseLinear(points)(rf.convert_to_tensor(values, dims=[dim]))
        got = out.raw_tensor if backend == "numpy" else out.raw_tensor.numpy()
    expected = numpy.interp(values, sorted(points), [points[x] for x in sorted(points)])
    numpy.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_of_integers_and_with_a_single_point_or_tensors():
    with rf.backend_ctx("numpy"):
        step = rf.convert_to_tensor(3, dims=())
        assert rf.PiecewiseLinear([(1, 7)])(step).raw_tensor == 7
        points = {0: rf.convert_to_tensor(1.0, dims=()), 10: rf.convert_to_tensor(2.0, dims=())}
        assert rf.PiecewiseLinear(points)(step).raw_tensor == pytest.approx(1.3)


def test_error_text():
    with pytest.raises(DimError) as info:
        rf.PiecewiseLinear([(1, 2), (1, 3)])
    assert str(info.value) == "PiecewiseLinear: there should be points, each with an x of its own, not [1.0, 1.0]."
