"""Layer normalization by the native kernel is what single operations compute, also its gradients."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.kernels.native import get_operations

tf1 = tf.compat.v1


def values_of_both(monkeypatch, order="BTF", train_flag=True, dtype="float32"):
    """:return: for the kernel and without: types of operations; output, gradients, and gradients of those"""
    found = []
    for is_on in "10":
        monkeypatch.setenv("RETURNN_NATIVE", is_on)
        with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf1.Session(graph=graph) as session:
            time, feature = Dim(4, name="time"), Dim(21, name="feature", kind=Dim.Types.Feature)
            dims = [{"B": Dim(3, name="batch"), "T": time, "F": feature}[axis] for axis in order]
            random = numpy.random.RandomState(1)
            x, d_y, d_d_x = (tf.constant(random.normal(size=[d.dimension for d in dims]), dtype) for _ in range(3))
            scale, bias = (tf.constant(random.normal(1.0, 0.3, 21), dtype) for _ in range(2))
            source = Tensor("x", dims=dims, dtype=dtype, feature_dim=feature, raw_tensor=x)
            params = [Tensor("p", dims=[feature], dtype=dtype, raw_tensor=p) for p in (scale, bias)]
            with rf.get_run_ctx().train_flag_ctx(train_flag):
                norm = rf.LayerNorm(feature, eps=1e-3)
                norm.scale, norm.bias = params
                out = norm(source)
            assert out.dims == source.dims
            assert out.feature_dim == feature
            grads = tf.gradients(out.raw_tensor, [x, scale, bias], d_y)
            second = tf.gradients(grads, [x, scale, d_y], [d_d_x, scale * 2.0, bias])
            types = {op.type for op in graph.get_operations()}
            found.append((types, session.run([out.raw_tensor, *grads, *second])))
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_values_and_gradients(monkeypatch, dtype):
    if get_operations() is None:
        pytest.skip("no kernels")
    (types, values), (other_types, expected) = values_of_both(monkeypatch, dtype=dtype)
    assert "ReturnnLayerNormGradGrad" in types
    assert not any(name.startswith("Returnn") for name in other_types)
    for value, other in zip(values, expected, strict=True):
        numpy.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-4 if dtype == "float32" else 1e-10)


@pytest.mark.parametrize("options", [{"order": "BFT"}, {"train_flag": False}])
def test_by_single_operations(monkeypatch, options):
    (types, values), (_, expected) = values_of_both(monkeypatch, **options)
    assert not any(name.startswith("Returnn") for name in types)
    for value, other in zip(values, expected, strict=True):
        numpy.testing.assert_array_equal(value, other)
