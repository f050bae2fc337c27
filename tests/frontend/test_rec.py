"""Recurrent modules: against PyTorch's own, and step by step."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.frontend import LSTM, LstmState, ZoneoutLSTM
from returnn.tensor import Dim, Tensor, single_step_dim
from returnn.util.errors import DimError

BATCH, IN, OUT = Dim(3, name="batch", kind=Dim.Types.Batch), Dim(4, name="in"), Dim(5, name="out")
LENGTHS = [4, 1, 3]


@pytest.fixture(autouse=True)
def torch_backend():
    with rf.backend_ctx("torch"):
        rf.set_random_seed(1)
        rf.init_forward_step_run_ctx()
        yield


def time_dim() -> Dim:
    return Dim(Tensor("lengths", [BATCH], "int32", raw_tensor=torch.tensor(LENGTHS, dtype=torch.int32)), name="time")


def floats(*dims: Dim, seed: int = 1) -> Tensor:
    sizes = [int(d.get_dim_value()) for d in dims]
    raw = torch.tensor(numpy.random.RandomState(seed).normal(size=sizes).astype("float32"))
    return Tensor("x", dims, "float32", raw_tensor=raw, feature_dim=dims[-1])


def state() -> LstmState:
    return LstmState(h=floats(BATCH, OUT, seed=2), c=floats(BATCH, OUT, seed=3))


def copy_params(source: LSTM, target: LSTM) -> None:
    for name, param in source.named_parameters():
        target.get_deep(name).assign(param)


def raw(x: Tensor, *dims: Dim) -> torch.Tensor:
    return x.copy_compatible_to_dims_raw(dims)


@pytest.mark.parametrize("with_bias", [True, False])
def test_lstm(with_bias):
    module, time, before = LSTM(IN, OUT, with_bias=with_bias), time_dim(), state()
    if with_bias:
        module.bias.assign(rf.random_normal([4 * OUT], dtype="float32"))
    expected = torch.nn.LSTM(4, 5, bias=with_bias, batch_first=True)
    with torch.no_grad():
        expected.weight_ih_l0.copy_(module.ff_weight.raw_tensor)
        expected.weight_hh_l0.copy_(module.rec_weight.raw_tensor)
        if with_bias:
            expected.bias_ih_l0.copy_(module.bias.raw_tensor)
            expected.bias_hh_l0.zero_()
    source = floats(BATCH, time, IN)
    out, after = module(source, state=before, spatial_dim=time)
    packed = torch.nn.utils.rnn.pack_padded_sequence(source.raw_tensor, LENGTHS, True, enforce_sorted=False)
    wanted, (h, c) = expected(packed, (before.h.raw_tensor[None], before.c.raw_tensor[None]))
    wanted, _ = torch.nn.utils.rnn.pad_packed_sequence(wanted, True)
    mask = time.get_mask().raw_tensor
    torch.testing.assert_close(raw(out, BATCH, time, OUT)[mask], wanted[mask])
    torch.testing.assert_close(raw(after.h, BATCH, OUT), h[0])
    torch.testing.assert_close(raw(after.c, BATCH, OUT), c[0])


@pytest.mark.parametrize("kind", [LSTM, ZoneoutLSTM])
def test_steps_give_what_a_sequence_gives(kind):
    options = {"zoneout_factor_cell": 0.2, "zoneout_factor_output": 0.1} if kind is ZoneoutLSTM else {}
    module, time = kind(IN, OUT, **options), Dim(4, name="time")
    source = floats(BATCH, time, IN)
    whole, last = module(source, state=module.default_initial_state(batch_dims=[BATCH]), spatial_dim=time)
    step_state = module.default_initial_state(batch_dims=[BATCH])
    for i in range(4):
        out, step_state = module(rf.gather(source, indices=i, axis=time), state=step_state, spatial_dim=single_step_dim)
        torch.testing.assert_close(raw(out, BATCH, OUT), raw(whole, BATCH, time, OUT)[:, i])
    for name in ("h", "c"):
        torch.testing.assert_close(raw(step_state[name], BATCH, OUT), raw(last[name], BATCH, OUT))


def test_without_zoneout_it_is_an_lstm():
    module, other, time = LSTM(IN, OUT), ZoneoutLSTM(IN, OUT), time_dim()
    copy_params(module, other)
    source, mask = floats(BATCH, time, IN), time.get_mask().raw_tensor
    (out, after), (other_out, other_after) = (m(source, state=state(), spatial_dim=time) for m in (module, other))
    torch.testing.assert_close(raw(other_out, BATCH, time, OUT)[mask], raw(out, BATCH, time, OUT)[mask])
    torch.testing.assert_close(raw(other_after.c, BATCH, OUT), raw(after.c, BATCH, OUT))


def test_order_of_parts_and_forget_bias():
    module, other, before = ZoneoutLSTM(IN, OUT, forget_bias=1.0), ZoneoutLSTM(IN, OUT, parts_order="jifo"), state()
    for name, param in module.named_parameters():
        axis = param.dims.index(4 * OUT)
        chunks = torch.chunk(param.raw_tensor.detach(), 4, dim=axis)
        if name == "bias":
            chunks = [chunks[0], chunks[1] + 1.0, *chunks[2:]]
        with torch.no_grad():
            other.get_deep(name).raw_tensor.copy_(torch.cat([chunks[k] for k in (2, 0, 1, 3)], dim=axis))
    source = floats(BATCH, IN)
    out, _ = module(source, state=before, spatial_dim=single_step_dim)
    other_out, _ = other(source, state=before, spatial_dim=single_step_dim)
    torch.testing.assert_close(raw(other_out, BATCH, OUT), raw(out, BATCH, OUT))


def test_zoneout_in_training_and_after():
    batch = Dim(400, name="batch")
    module = ZoneoutLSTM(IN, OUT, zoneout_factor_cell=0.3, zoneout_factor_output=0.6, use_zoneout_output=False)
    module.dropout_broadcast = False
    plain = ZoneoutLSTM(IN, OUT)
    copy_params(module, plain)
    before = LstmState(h=floats(batch, OUT, seed=2), c=floats(batch, OUT, seed=3))
    source = floats(batch, IN)
    out, new = plain(source, state=before, spatial_dim=single_step_dim)
    for is_training in (True, False):
        rf.init_train_step_run_ctx(train_flag=is_training)
        zoneout_out, zoneout = module(source, state=before, spatial_dim=single_step_dim)
        torch.testing.assert_close(raw(zoneout_out, batch, OUT), raw(out, batch, OUT))
        for name, factor in (("c", 0.3), ("h", 0.6)):
            got, changed, old = (raw(x[name], batch, OUT) for x in (zoneout, new, before))
            if is_training:
                stays = torch.isclose(got, old)
                assert float(stays.float().mean()) == pytest.approx(factor, abs=0.05)
                torch.testing.assert_close(got[~stays], changed[~stays])
            else:
                torch.testing.assert_close(got, factor * old + (1 - factor) * changed)


def test_zoneout_in_a_graph():
    module, time = ZoneoutLSTM(IN, OUT, zoneout_factor_cell=0.2), time_dim()
    source = floats(BATCH, time, IN)
    expected, _ = module(source, state=state(), spatial_dim=time)
    values = {name: param.raw_tensor.detach().numpy() for name, param in module.named_parameters()}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session, rf.backend_ctx("tf"):
        graph_module = ZoneoutLSTM(IN, OUT, zoneout_factor_cell=0.2)
        for name, param in graph_module.named_parameters():
            param.initial = values[name]
        lengths = Tensor("lengths", [BATCH], "int32", raw_tensor=tf.constant(LENGTHS))
        graph_time = Dim(lengths, name="time")
        graph_source = Tensor(
            "x", [BATCH, graph_time, IN], "float32", raw_tensor=tf.constant(source.raw_tensor.numpy())
        )
        before = LstmState(**{
            name: Tensor(name, x.dims, "float32", raw_tensor=tf.constant(x.raw_tensor.numpy()))
            for name, x in state().items()
        })  # fmt: skip
        out, _ = graph_module(graph_source, state=before, spatial_dim=graph_time)
        result = out.copy_compatible_to_dims_raw([BATCH, graph_time, OUT])
        session.run(tf.compat.v1.global_variables_initializer())
        got = session.run(result)
    mask = time.get_mask().raw_tensor.numpy()
    numpy.testing.assert_allclose(
        got[mask], raw(expected, BATCH, time, OUT).detach().numpy()[mask], rtol=1e-4, atol=1e-5
    )


def test_error_texts():
    with pytest.raises(DimError) as info:
        ZoneoutLSTM(IN, OUT, parts_order="ifo")
    assert str(info.value) == "ZoneoutLSTM: parts_order 'ifo' should have each of i, f, o, c once."
    with pytest.raises(DimError) as info:
        LSTM(IN, OUT)(floats(BATCH, IN), state=state(), spatial_dim=Dim(2, name="time"))
    assert str(info.value).startswith("LSTM: spatial_dim, in_dim: 'x' [B, F|in(4)] has no dim time(2).")
