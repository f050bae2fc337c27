"""Mixed precision: products are shorter, nothing else is."""

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError

A, B, C = Dim(6, name="a"), Dim(32, name="b"), Dim(4, name="c")


def values(*sizes, seed=1):
    return numpy.random.RandomState(seed).normal(size=sizes).astype("float32")


def multiply(x):
    return rf.matmul(x, rf.convert_to_tensor(values(32, 4, seed=2), dims=[B, C]), reduce=B)


def convolve(x):
    window = Dim(3, name="window")
    filter = rf.convert_to_tensor(values(3, 32, 4, seed=2), dims=[window, B, C])
    options = {"in_dim": B, "out_dim": C, "in_spatial_dims": [A], "filter": filter, "filter_size": [window]}
    return rf.conv(x, **options, padding="same")[0]


def convolve_transposed(x):
    window = Dim(3, name="window")
    filter = rf.convert_to_tensor(values(3, 4, 32, seed=2), dims=[window, C, B])
    options = {"in_dim": B, "out_dim": C, "in_spatial_dims": [A], "filter": filter, "filter_size": [window]}
    return rf.transposed_conv(x, **options, padding="same")[0]


def attend(x):
    frames = Dim(6, name="keys")
    keys = rf.replace_dim(x, in_dim=A, out_dim=frames)[0]
    options = {"v_feat_dim": B, "qk_feat_dim": B, "kv_spatial_dim": frames, "query_spatial_dim": A}
    return x._raw_backend.scaled_dot_product_attention(x, keys, keys, att_dropout_broadcast=False, **options)


PRODUCTS = {"matmul": multiply, "conv": convolve, "transposed conv": convolve_transposed, "attention": attend}
OTHERS = {
    "softmax": lambda x: rf.softmax(x, axis=B),
    "sum": lambda x: rf.reduce_sum(x, axis=B),
    "norm": lambda x: rf.normalize(x, axis=B),
    "tanh": rf.tanh,
}


def run(backend, compute, policy):
    """:return: result and gradient by the input"""
    with rf.set_amp_policy_ctx(policy):
        if backend == "torch":
            with rf.backend_ctx("torch"):
                rf.init_forward_step_run_ctx()
                raw = torch.tensor(values(6, 32), requires_grad=True)
                out = compute(Tensor("x", [A, B], "float32", raw_tensor=raw, feature_dim=B))
                assert out.dtype == "float32"
                assert out.raw_tensor.dtype == torch.float32
                out.raw_tensor.sum().backward()
                return out.raw_tensor.detach().numpy(), raw.grad.numpy()
        with tf.Graph().as_default(), tf.compat.v1.Session() as session, rf.backend_ctx("tf"):
            rf.init_forward_step_run_ctx()
            raw = tf.constant(values(6, 32))
            out = compute(Tensor("x", [A, B], "float32", raw_tensor=raw, feature_dim=B))
            assert out.raw_tensor.dtype == tf.float32
            return session.run((out.raw_tensor, tf.gradients(tf.reduce_sum(out.raw_tensor), raw)[0]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("backend", ["torch", "tf"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_computed_in_it(name, backend, dtype):
    exact = run(backend, PRODUCTS[name], None)
    short = run(backend, PRODUCTS[name], dtype)
    tolerance = 0.05 if dtype == "bfloat16" else 0.01
    for a, b in zip(short, exact, strict=True):
        numpy.testing.assert_allclose(a, b, atol=tolerance * numpy.abs(b).max())
    assert (short[0] != exact[0]).any()


@pytest.mark.parametrize("backend", ["torch", "tf"])
@pytest.mark.parametrize("name", OTHERS)
def test_everything_else_is_not(name, backend):
    for a, b in zip(run(backend, OTHERS[name], "bfloat16"), run(backend, OTHERS[name], None), strict=True):
        numpy.testing.assert_array_equal(a, b)


def test_policies():
    assert rf.get_amp_policy() is None
    with rf.set_amp_policy_ctx("bfloat16"):
        assert rf.get_amp_policy() == rf.AmpPolicy("bfloat16")
        with rf.set_amp_policy_ctx(None):
            assert rf.get_amp_policy() is None
    assert rf.get_amp_policy() is None
    with pytest.raises(DtypeError, match="compute_dtype should be a float such as 'bfloat16', got 'int32'"):
        rf.AmpPolicy("int32")
