"""What is said of the functions of a config that make a model."""

import pytest

import returnn.frontend as rf
from returnn.engine.frontend.functions import left_out_parts
from returnn.tensor import Dim

DIM = Dim(3, name="feature")


class _Model(rf.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers
        self.inner = rf.Module()
        self.sizes = [1, 2]


@pytest.mark.parametrize("kind", [list, tuple, lambda parts: dict(enumerate(parts))])
def test_parts_in_python_lists_are_not_trained(kind):
    model = _Model(kind([rf.Linear(DIM, DIM)]))
    with rf.backend_ctx("numpy"):
        (text,) = left_out_parts(model)
    assert text.startswith(
        f"the attribute 'layers' of the model is a {type(model.layers).__name__}: what is in there is"
    )
    assert "rf.ModuleList" in text


def test_lists_of_parts_that_belong_to_the_model():
    model = _Model(rf.ModuleList([rf.Linear(DIM, DIM)]))
    model.last_ones = [*model.layers]
    assert not list(left_out_parts(model))
    model.inner.weights = [rf.Parameter([DIM])]
    (text,) = left_out_parts(model)
    assert text.startswith("the attribute 'weights' of inner is a list")
    assert "rf.ParameterList" in text


def test_parts_of_modules_of_pytorch():
    nn = pytest.importorskip("torch").nn
    model = nn.Sequential(nn.Linear(2, 2))
    model.last_ones = [model[0]]
    assert not list(left_out_parts(model))
    model.layers = [nn.Linear(2, 2)]
    (text,) = left_out_parts(model)
    assert text.startswith("the attribute 'layers' of the model is a list")
    assert "torch.nn.ModuleList" in text
