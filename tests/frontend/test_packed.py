"""Packed tensors: in all frames that exist, values are those of padded ones."""

import numpy
import pytest

import returnn.frontend as rf
from returnn.frontend.encoder.transformer import TransformerEncoderLayer
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import DimError, UserError

LENGTHS = [3, 5, 1, 4]


@pytest.fixture(params=["torch", "numpy"], autouse=True)
def backend(request):
    BehaviorVersion.set(30)  # padded frames are left out
    rf.select_backend(request.param)
    yield request.param
    rf.select_backend_numpy()


class Case:
    """A batch of sequences."""

    def __init__(self, lengths=LENGTHS, size=8):
        self.batch = Dim(len(lengths), name="batch")
        raw = rf.convert_to_tensor(numpy.array(lengths, "int32"), dims=[self.batch])
        self.time, self.feature = Dim(raw, name="time"), Dim(size, name="feature")
        self.random = numpy.random.RandomState(1)
        self.x = self.made([self.batch, self.time, self.feature])
        self.other = self.made([self.time, self.batch, self.feature])
        self.of_seq = self.made([self.batch, self.feature])
        self.of_frame = self.made([self.time])

    def made(self, dims):
        shape = [dim.get_dim_value() for dim in dims]
        feature = self.feature if self.feature in dims else None
        return rf.convert_to_tensor(
            self.random.normal(size=[int(size) for size in shape]).astype("float32"), dims=dims, feature_dim=feature
        )


def array(x, dims):
    x = rf.unpack(x)
    x = x.copy_masked(0).copy_transpose(dims)
    raw = x.raw_tensor
    return raw.detach().numpy() if hasattr(raw, "detach") else raw


def linear_and_norm(c, x):
    rf.set_random_seed(1)
    return rf.LayerNorm(c.feature)(rf.relu(rf.Linear(c.feature, c.feature)(x)))


def encoder_layer(c, x):
    rf.set_random_seed(1)
    return TransformerEncoderLayer(c.feature, num_heads=2)(x, spatial_dim=c.time)


def causal_attention(c, x, *, with_state):
    rf.set_random_seed(1)
    att = rf.CausalSelfAttention(c.feature, c.feature, key_dim_total=c.feature, value_dim_total=c.feature, num_heads=2)
    state = att.default_initial_state(batch_dims=[c.batch]) if with_state else None
    out, _ = att(x, axis=c.time, state=state)
    return out


def convolution(c, x):
    rf.set_random_seed(1)
    out, _ = rf.Conv1d(c.feature, c.feature, 3, padding="same")(x, in_spatial_dim=c.time, out_spatial_dim=c.time)
    return out


def embedded(c, x):
    labels = rf.reduce_argmax(x, axis=c.feature)
    rf.set_random_seed(1)
    return rf.Embedding(c.feature, c.feature)(labels)


CASES = {
    "elementwise": (lambda c, x: rf.tanh(x) * 2.0 + x, True),
    "with padded": (lambda c, x: x + c.other, True),
    "with sequence": (lambda c, x: rf.combine_bc(x, "*", c.of_seq), True),
    "with frame": (lambda c, x: rf.combine_bc(c.of_frame, "-", x), True),
    "where": (lambda c, x: rf.where(x > 0, x, c.other), True),
    "softmax": (lambda c, x: rf.softmax(x, axis=c.feature), True),
    "linear and norm": (linear_and_norm, True),
    "encoder layer": (encoder_layer, True),
    "causal": (lambda c, x: causal_attention(c, x, with_state=False), True),
    "causal behind a state": (lambda c, x: causal_attention(c, x, with_state=True), False),
    "embedding": (embedded, True),
    "cast": (lambda c, x: rf.cast(rf.cast(x * 10, "int32"), "float32"), True),
    "convolution": (convolution, False),
    "cumsum": (lambda c, x: rf.cumsum(x, spatial_dim=c.time), False),
    "softmax over frames": (lambda c, x: rf.softmax(x, axis=c.time), False),
}


@pytest.mark.parametrize("case", CASES)
def test_packed_equals_padded(case):
    compute, stays_packed = CASES[case]
    c = Case()
    found = compute(c, rf.pack(c.x))
    assert rf.is_packed(found) == stays_packed
    wanted = compute(c, c.x)
    assert set(found.dims) == set(wanted.dims)
    assert found.dtype == wanted.dtype
    assert found.feature_dim == wanted.feature_dim
    dims = [c.batch, c.time, c.feature]
    numpy.testing.assert_allclose(array(found, dims), array(wanted, dims), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("axes", ["frames", "time", "all"])
def test_reductions(mode, axes):
    c = Case()
    axis = {"frames": [c.time, c.batch], "time": c.time, "all": [c.batch, c.time, c.feature]}[axes]
    found, wanted = (rf.reduce(x, mode=mode, axis=axis) for x in (rf.pack(c.x), c.x))
    assert not rf.is_packed(found)
    numpy.testing.assert_allclose(array(found, wanted.dims), array(wanted, wanted.dims), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("label_loop", "logits_normalized"), [(True, False), (True, True), (False, True)])
def test_ctc_loss(label_loop, logits_normalized):
    c = Case([7, 5, 9])
    num_labels = rf.convert_to_tensor(numpy.array([2, 0, 3], "int32"), dims=[c.batch])
    labels_dim = Dim(num_labels, name="labels")
    labels = rf.convert_to_tensor(
        numpy.array([[1, 1, 0], [0, 0, 0], [3, 2, 2]], "int32"), dims=[c.batch, labels_dim], sparse_dim=c.feature
    )
    options = {
        "logits_normalized": logits_normalized, "targets": labels, "input_spatial_dim": c.time,
        "targets_spatial_dim": labels_dim, "blank_index": 7, "label_loop": label_loop,
    }  # fmt: skip
    logits = rf.log_softmax(c.x, axis=c.feature) if logits_normalized else c.x
    found, wanted = (rf.ctc_loss(logits=x, **options) for x in (rf.pack(logits), logits))
    numpy.testing.assert_allclose(array(found, [c.batch]), array(wanted, [c.batch]), rtol=1e-4)
    raw = rf.pack(logits).raw_tensor
    inner = rf.get_backend_of(raw.content)
    with pytest.raises(UserError, match="there are 7 states, but edges_bound is 5"):
        inner.ctc_loss_packed_raw(
            logits=raw.content.raw_tensor, seq_starts=None, logits_seq_lens=None, max_seq_len=9,
            targets=labels.raw_tensor, targets_seq_lens=None, label_loop=True, logits_normalize=True, blank_index=7,
            edges_bound=5,
        )  # fmt: skip


def test_gradients(backend):
    if backend != "torch":
        pytest.skip("numpy has no gradients")
    gradients = []
    for is_packed in (True, False):
        c = Case()
        c.x.raw_tensor.requires_grad_(True)
        out = encoder_layer(c, rf.pack(c.x) if is_packed else c.x)
        rf.reduce_sum(rf.square(out), axis=out.dims).raw_tensor.backward()
        gradients.append(c.x.raw_tensor.grad.numpy())
    numpy.testing.assert_allclose(*gradients, rtol=1e-3, atol=1e-4)
    assert numpy.abs(gradients[0][0, 3:]).max() == 0


def test_what_is_in_memory():
    c = Case()
    content, frames = rf.packed_flat_content(rf.pack(c.x))
    assert tuple(content.raw_tensor.shape) == (sum(LENGTHS), 8)
    again = rf.pack_import(content, in_dim=frames, dims=[c.batch, c.time])
    assert rf.is_packed(again)
    assert rf.pack(again) is again
    assert rf.unpack(c.x) is c.x
    numpy.testing.assert_array_equal(array(again, c.x.dims), array(c.x, c.x.dims))


def test_gaps_are_zeros_behind_each_sequence():
    c = Case([2, 1])
    content, frames = rf.packed_regap(rf.pack(c.x), gap=2)
    padded = array(c.x, c.x.dims)
    zeros = numpy.zeros((2, 8))
    wanted = numpy.concatenate([padded[0, :2], zeros, padded[1, :1], zeros])
    numpy.testing.assert_array_equal(array(content, [frames, c.feature]), wanted)


def test_errors():
    c = Case()
    with pytest.raises(DimError, match=r"pack: .* has 0 dims with lengths over another one.\n  Say which by 'dims'"):
        rf.pack(c.of_seq)
    with pytest.raises(DimError, match="expected a dim, and one with a length for each of its entries"):
        rf.pack(c.x, dims=[c.time, c.feature])
    with pytest.raises(DimError, match=r"packed_flat_content: .* is not packed.\n  rf.pack does that"):
        rf.packed_flat_content(c.x)


def test_templates_are_not_packed():
    x = Tensor("x", dims=[batch_dim], dtype="float32")
    assert not rf.is_packed(x)
