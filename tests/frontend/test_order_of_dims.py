"""In which order dims of several operands stand in what is computed of them."""

from __future__ import annotations

import pytest

import returnn.frontend as rf
from returnn.frontend import backend_ctx
from returnn.tensor import Dim, Tensor, batch_dim

TIME, OTHER_TIME, FEATURE = (
    Dim(None, name="time"),
    Dim(None, name="other"),
    Dim(3, name="feature", kind=Dim.Types.Feature),
)
BEAM = Dim(4, name="beam", kind=Dim.Types.Beam)


def total(a: list[Dim], b: list[Dim]) -> list[Dim]:
    """:return: dims of a + b, which both have features"""
    with backend_ctx("template"):
        x, y = (Tensor(name, dims, "float32", feature_dim=FEATURE) for name, dims in (("x", a), ("y", b)))
        return list(rf.combine_bc(x, "+", y).dims)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([batch_dim, TIME, FEATURE], [batch_dim, BEAM, FEATURE], [batch_dim, TIME, BEAM, FEATURE]),
        ([batch_dim, BEAM, FEATURE], [batch_dim, TIME, FEATURE], [batch_dim, BEAM, TIME, FEATURE]),
        ([batch_dim, FEATURE, TIME], [batch_dim, BEAM, FEATURE], [batch_dim, FEATURE, TIME, BEAM]),
        ([batch_dim, TIME, BEAM, FEATURE], [batch_dim, FEATURE], [batch_dim, TIME, BEAM, FEATURE]),
        ([batch_dim, TIME, FEATURE], [batch_dim, OTHER_TIME, FEATURE], [batch_dim, TIME, FEATURE, OTHER_TIME]),
    ],
    ids=["of hypotheses second", "first", "no feature dim behind", "nothing missing", "without hypotheses"],
)
def test_features_stay_behind_hypotheses(a, b, expected):
    assert total(a, b) == expected
