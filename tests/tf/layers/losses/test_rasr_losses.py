"""Losses with RASR, which a script stands in for."""

import contextlib
import sys
from pathlib import Path

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.sprint.error_signals import SprintInstancePool
from returnn.util.errors import ConfigError, UserError
from tests.tf.layers.layer_net import LENGTHS, batch_of, construct

tf1 = tf.compat.v1
FAKE_RASR = [sys.executable, str(Path(__file__).with_name("fake_rasr_control.py"))]
TAGS = ["seq0", "seq1", "seq2"]


@pytest.fixture
def opts():
    opts = {"sprintExecPath": FAKE_RASR, "sprintConfigStr": "--*.TASK=1", "numInstances": 2}
    yield opts
    for pool in SprintInstancePool.global_instances.values():
        pool.close()
    SprintInstancePool.global_instances.clear()


def value_and_gradient(desc, *, want="loss", tags=TAGS, others=None):
    """:return: value of the loss of a layer, and the gradient of its parameters"""
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        tf1.set_random_seed(1)
        net = construct({**(others or {}), "output": {"from": "data", **desc}}, train_flag=True)
        _, total, _ = net.get_losses_initialized(with_total=True)
        fetches = [total, tf1.gradients(total, net.get_trainable_params())]
        batch = batch_of()
        # Padded frames of NaN would make all gradients of the weights NaN, whatever the loss is.
        feed = {net.extern_data.data[key].raw_tensor: numpy.nan_to_num(batch[key]) for key in ("data", "ids")}
        for key in ("data", "ids"):
            data = net.extern_data.data[key]
            feed.update((dim.dyn_size, LENGTHS) for dim in data.dims if dim.is_dynamic_seq_length())
            feed[data.batch.dim] = len(LENGTHS)
        if "seq_tag" in net.extern_data.data:
            feed[net.extern_data.data["seq_tag"].raw_tensor] = tags
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            return session.run(fetches, feed_dict=feed)


def assert_equal_losses(actual, expected):
    tf.nest.map_structure(lambda a, b: numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), actual, expected)


@pytest.mark.parametrize(("layer_class", "config"), [("softmax", ""), ("linear", ""), ("softmax", "--visit")])
def test_loss_of_rasr_and_its_gradient(opts, layer_class, config):
    opts["sprintConfigStr"] += f" {config}"
    softmax = {"class": layer_class, "activation": "softmax" if layer_class == "linear" else None, "n_out": 5}
    softmax = {key: value for key, value in softmax.items() if value}
    zeros = {"class": "eval", "eval": "source(0) * 0", "from": "data:ids"}
    expected = value_and_gradient({**softmax, "loss": "ce", "target": "layer:zeros"}, others={"zeros": zeros})
    actual = value_and_gradient({**softmax, "loss": "sprint", "loss_opts": {"sprint_opts": opts}})
    assert_equal_losses(actual, expected)


def test_sum_over_all_paths_of_the_automaton_of_rasr(opts):
    formula = "-tf.math.log(tf.reduce_sum(source(0)[:, :, :2], axis=-1)) + 0.25"
    out_type = {"shape": (None,), "dim": None, "feature_dim_axis": None}
    negative_log = {"class": "eval", "eval": formula, "from": "probs", "out_type": out_type}
    probs = {"class": "softmax", "n_out": 5, "from": "data", "name_scope": "output"}
    expected = value_and_gradient({**negative_log, "loss": "as_is"}, others={"probs": probs})
    fast_bw = {"class": "softmax", "n_out": 5, "loss": "fast_bw"}
    actual = value_and_gradient({**fast_bw, "loss_opts": {"sprint_opts": opts, "tdp_scale": 0.5}})
    assert_equal_losses(actual, expected)


def test_the_layer_has_the_automata_of_rasr_as_well(opts):
    probs = {"class": "softmax", "n_out": 5, "from": "data", "name_scope": "output"}
    layer = {
        "class": "fast_bw", "align_target": "sprint", "sprint_opts": opts, "tdp_scale": 0.5, "from": "probs",
        "input_type": "prob",
    }  # fmt: skip
    via = {"align_layer": "fast_bw", "loss_wrt_to_act_in": "softmax"}
    loss = {"class": "copy", "from": "probs", "loss": "via_layer", "loss_opts": via}
    actual = value_and_gradient(loss, others={"probs": probs, "fast_bw": layer})
    fast_bw = {"class": "softmax", "n_out": 5, "loss": "fast_bw"}
    expected = value_and_gradient({**fast_bw, "loss_opts": {"sprint_opts": opts, "tdp_scale": 0.5}})
    assert_equal_losses(actual, expected)


def test_a_question_in_two_halves(opts):
    scores = numpy.log(numpy.full([4, 5], 0.2, dtype="float32"))
    with contextlib.closing(SprintInstancePool(opts)) as pool:
        instance = pool.get_free_instance()
        instance.get_loss_and_error_signal__send("seq2", 4, scores)
        assert pool.get_free_instance() is not instance
        name, loss, error_signal = instance.get_loss_and_error_signal__read()
        assert not instance.is_calculating
        assert not instance.get_loss_and_error_signal__have_data()
    assert (name, error_signal.shape) == ("seq2", (4, 5))
    numpy.testing.assert_allclose(loss, -scores[:, 0].sum(), rtol=1e-5)


def test_a_rasr_that_visits_another_segment(opts):
    scores = numpy.zeros([2, 5], dtype="float32")
    with contextlib.closing(SprintInstancePool({**opts, "sprintConfigStr": "--visit"})) as pool:
        with pytest.raises(UserError, match="cannot answer 'export_allophone_state_fsa_by_segment_name'"):
            pool.get_automata_for_batch(["seq0"])
        with pytest.raises(UserError, match=r"RASR has \d frames, there are 2 outputs"):
            pool.get_batch_loss_and_error_signal(scores[:, None], [2], ["seq0"])


def test_automata_of_a_batch_are_one_behind_the_other(opts):
    with contextlib.closing(SprintInstancePool(opts)) as pool:
        edges, weights, start_end = pool.get_automata_for_batch([b"seq0", "seq1"])
    assert start_end.tolist() == [[0, 2], [1, 3]]
    assert edges[3].tolist() == [0] * 4 + [1] * 4
    assert edges[:2, 4:].min() == 2
    assert weights.shape == (8,)


def ask_for_automata(opts):
    with contextlib.closing(SprintInstancePool(opts)) as pool:
        pool.get_automata_for_batch(["seq0", "other"])


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"sprintExecPth": 1}, ConfigError, ["sprintExecPth", "Did you mean 'sprintExecPath'"]),
        ({"sprintExecPath": "/no/nn-trainer"}, ConfigError, ["there is no program '/no/nn-trainer'"]),
        ({"sprintConfigStr": "--version=1"}, UserError, ["version 1", "at least 2", "minPythonControlVersion"]),
        ({"sprintConfigStr": "--crash"}, UserError, ["seq0", "exit status 4", "out of memory"]),
        ({}, UserError, ["cannot answer export_allophone_state_fsa_by_segment_name other", "no segment 'other'"]),
    ],
)
def test_what_goes_wrong_is_explained(opts, change, error, words):
    with pytest.raises(error) as info:
        ask_for_automata({**opts, "numInstances": 1, **change})
    assert len(str(info.value).splitlines()) <= 5
    for word in words:
        assert word in str(info.value)


def test_a_network_is_constructed_without_the_program():
    opts = {"sprintExecPath": "/no/nn-trainer", "sprintConfigStr": "--x", "numInstances": 1}
    loss = {"class": "softmax", "n_out": 5, "loss": "fast_bw", "loss_opts": {"sprint_opts": opts}}
    with pytest.raises(tf.errors.OpError, match="there is no program '/no/nn-trainer'"):
        value_and_gradient(loss)  # when it runs
