"""Models of other toolkits: computed by the formulas of those, the same comes out of our layers."""

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.tf.network import TFNetwork
from returnn.tools.checkpoints.formats import Checkpoint, read_checkpoint, write_any_checkpoint

NORM = "layer_prepostprocess/layer_norm/layer_norm"


def _run(network, values, x):
    """:return: output of the layer "output" for one sequence"""
    config = Config({"extern_data": {"data": {"dim": x.shape[1]}}, "network": network, "behavior_version": 21})
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        net = TFNetwork(config=config, train_flag=False)
        net.construct_from_dict(network)
        for param in net.get_params_list():
            param.load(values[param.name.split(":")[0]], session)
        data = net.extern_data.data["data"]
        feed = {data.placeholder: x[None], data.get_sequence_lengths(): [len(x)]}
        return session.run(net.get_default_output_layer().output.copy_as_batch_major().placeholder, feed)[0]


def _t2t(rng, *, size=4, ff=6, labels=5, shards=2):
    values = {}
    for side, attentions in (("encoder", ["self_attention"]), ("decoder", ["self_attention", "encdec_attention"])):
        for layer in range(2):
            where = f"transformer/body/{side}/layer_{layer}"
            for block in (*attentions, "ffn"):
                for param in ("scale", "bias"):
                    values[f"{where}/{block}/layer_prepostprocess/layer_norm/layer_norm_{param}"] = rng.normal(
                        size=size
                    )
            for block in attentions:
                for part in ("q", "k", "v", "output_transform"):
                    values[f"{where}/{block}/multihead_attention/{part}/kernel"] = rng.normal(size=(size, size))
            values[f"{where}/ffn/conv1/kernel"] = rng.normal(size=(size, ff))
            values[f"{where}/ffn/conv1/bias"] = rng.normal(size=ff)
            values[f"{where}/ffn/conv2/kernel"] = rng.normal(size=(ff, size))
            values[f"{where}/ffn/conv2/bias"] = rng.normal(size=size)
        for param in ("scale", "bias"):
            values[f"transformer/body/{side}/layer_prepostprocess/layer_norm/layer_norm_{param}"] = rng.normal(
                size=size
            )
    for i in range(shards):
        values[f"transformer/symbol_modality_{labels}_{size}/shared/weights_{i}"] = rng.normal(
            size=(labels - 2 * i, size)
        )
    values["training/transformer/body/encoder/layer_0/ffn/conv1/bias/Adam"] = rng.normal(size=ff)
    return {name: value.astype("float32") for name, value in values.items()}


def test_tensor2tensor(tool, tmp_path):
    rng = numpy.random.RandomState(1)
    theirs = _t2t(rng)
    write_any_checkpoint(Checkpoint(theirs, {"step": 7}), str(tmp_path / "model.ckpt-7"))
    status, out, err = tool("import-t2t-mt-model", tmp_path / "model.ckpt-7", tmp_path / "net.001", "--num_heads", 2)
    assert (status, err) == (0, "")
    checkpoint = read_checkpoint(str(tmp_path / "net.001"))
    values = checkpoint.values
    assert checkpoint.info == {"step": 7}
    assert out == f"wrote {tmp_path / 'net.001'}: {len(values)} tensors\n"
    assert values["source_embed_raw/W"].shape == (8, 4)
    numpy.testing.assert_array_equal(values["output/rec/output_prob/W"], values["output/rec/target_embed_raw/W"].T)
    outside = ["encoder/scale", "dec_01_att_key0/W", "dec_02_att_value0/W", "enc_02_ff_laynorm/scale"]
    inside = ["decoder/bias", "dec_01_att_query0/W", "dec_02_ff_conv2/b"]
    for name in (*outside, *(f"output/rec/{name}" for name in inside)):
        assert name in values, name
    attention = {"class": "self_attention", "num_heads": 2, "total_key_dim": 4, "n_out": 4, "from": "data"}
    network = {
        "enc_01_self_att_att": attention,
        "output": {"class": "linear", "n_out": 4, "with_bias": False, "from": "enc_01_self_att_att"},
    }
    x = rng.normal(size=(5, 4)).astype("float32")
    ours = _run(network, {**values, "output/W": values["enc_01_self_att_lin/W"]}, x)
    where = "transformer/body/encoder/layer_0/self_attention/multihead_attention"
    q, k, v = (numpy.split(x @ theirs[f"{where}/{part}/kernel"], 2, axis=1) for part in "qkv")
    heads = []
    for query, key, value in zip(q, k, v, strict=True):
        energy = query * 2**-0.5 @ key.T
        weights = numpy.exp(energy) / numpy.exp(energy).sum(axis=1, keepdims=True)
        heads.append(weights @ value)
    wanted = numpy.concatenate(heads, axis=1) @ theirs[f"{where}/output_transform/kernel"]
    numpy.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)


def test_blocks(tool, tmp_path):
    rng = numpy.random.RandomState(1)
    shapes = {"fork.W": (3, 8), "fork.b": (8,), "lstm.W_state": (2, 8), "lstm.initial_cells": (2,)}
    shapes |= {f"lstm.W_cell_to_{gate}": (2,) for gate in ("in", "forget", "out")}
    theirs = {f"|encoder|{name}": rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    theirs["|decoder|merge.W"] = rng.normal(size=(2, 2)).astype("float32")
    numpy.savez(tmp_path / "params.npz", **theirs)
    options = ["--lstm", "/encoder/lstm", "/encoder/fork", "enc", "--rename", "^decoder_", ""]
    status, out, err = tool("import-blocks-mt-model", tmp_path / "params.npz", tmp_path / "net.npz", *options)
    assert (status, out, err) == (0, f"wrote {tmp_path / 'net.npz'}: 6 tensors\n", "")
    values = read_checkpoint(str(tmp_path / "net.npz")).values
    numpy.testing.assert_array_equal(values["merge/W"], theirs["|decoder|merge.W"])
    x = rng.normal(size=(4, 3)).astype("float32")
    network = {
        "enc": {
            "class": "rec",
            "unit": "standardlstm",
            "unit_opts": {"use_peepholes": True},
            "n_out": 2,
            "from": "data",
        },
        "output": {"class": "copy", "from": "enc"},
    }
    ours = _run(network, values, x)
    p = {name.removeprefix("|encoder|"): value for name, value in theirs.items()}
    h, c, wanted = numpy.zeros(2), numpy.zeros(2), []
    for frame in x:
        i, f, j, o = numpy.split(frame @ p["fork.W"] + p["fork.b"] + h @ p["lstm.W_state"], 4)
        c_before = c
        c = _sigmoid(f + c_before * p["lstm.W_cell_to_forget"]) * c_before
        c = c + _sigmoid(i + c_before * p["lstm.W_cell_to_in"]) * numpy.tanh(j)
        h = _sigmoid(o + c * p["lstm.W_cell_to_out"]) * numpy.tanh(c)
        wanted.append(h)
    numpy.testing.assert_allclose(ours, wanted, atol=1e-5)


def test_what_is_wrong(tool, tmp_path):
    write_any_checkpoint(Checkpoint({"a": numpy.ones(2)}), str(tmp_path / "a.npz"))
    out = tmp_path / "b.npz"
    assert tool("import-t2t-mt-model", tmp_path / "a.npz", out, "--num_heads", 2)[2] == (
        "error: the checkpoint has no parameters of a model of Tensor2Tensor, such as 'transformer/body/...'.\n"
    )
    assert tool("import-blocks-mt-model", tmp_path / "a.npz", out)[2] == (
        "error: the parameter '/a' of Blocks has no place in a layer.\n  Is it of an LSTM? '--lstm'.\n"
    )
    assert tool("import-blocks-mt-model", tmp_path / "a.npz", out, "--lstm", "/x", "/y", "z")[2].startswith(
        "error: the parameter '/y.W' of Blocks is missing.\n"
    )
    write_any_checkpoint(Checkpoint(_t2t(numpy.random.RandomState(1))), str(tmp_path / "t.npz"))
    assert tool("import-t2t-mt-model", tmp_path / "t.npz", out, "--num_heads", 3)[2] == (
        "error: option '--num_heads': 3 does not divide 4.\n"
    )


def _sigmoid(x):
    return 1 / (1 + numpy.exp(-x))
