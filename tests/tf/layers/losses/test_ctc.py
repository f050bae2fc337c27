"""CTC: options of the own implementation, kernels against TensorFlow's operations, and the error."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config, global_config_ctx
from returnn.tf.frontend_low_level.kernels import native
from returnn.tf.network import TFNetwork
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import forget_shown
from tests.tf.layers.layer_net import EXTERN_DATA, LENGTHS, batch_of, construct

tf1 = tf.compat.v1
LABELS = {"class": "slice", "axis": "T", "slice_end": 2, "from": "data:ids"}


def run(ctc_opts, *, labels=LABELS, behavior_version=30, **loss_opts):
    """:return: loss; gradient by the output [B, T, F], of which the last class is blank"""
    with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf1.Session(graph=graph) as session:
        loss_opts = {"use_native": True, "beam_width": 1, "ctc_opts": ctc_opts, **loss_opts}
        scores = {"class": "copy", "from": "data", "loss": "ctc", "target": "layer:labels", "loss_opts": loss_opts}
        net_dict = {"output": {**scores, "is_output_layer": True}, "labels": labels}
        net = construct(net_dict, behavior_version=behavior_version, train_flag=True)
        losses, _, _ = net.get_losses_initialized()
        loss, output = losses["output"].get_loss_value(), net.get_layer("output").output.raw_tensor
        batch = batch_of(padding={"float32": 0.0, "int32": 0})
        feed = {net.extern_data.data[key].raw_tensor: batch[key] for key in ("data", "ids")}
        feed[net.extern_data.data["data"].batch.dim] = len(LENGTHS)
        for key in ("data", "ids"):
            feed[net.extern_data.data[key].get_time_dim_tag().dyn_size] = LENGTHS
        return session.run((loss, tf1.gradients(loss, output)[0]), feed_dict=feed)


def without_kernels(monkeypatch):
    monkeypatch.setattr(native, "is_wanted", lambda: False)


@pytest.mark.parametrize(
    ("ctc_opts", "labels"),
    [
        ({}, LABELS),
        ({"ctc_merge_repeated": False}, LABELS),
        ({"ignore_longer_outputs_than_inputs": True}, {"class": "copy", "from": "data:ids"}),  # some have no alignment
        ({"preprocess_collapse_repeated": True}, LABELS),
    ],
)
def test_without_a_word_the_kernel_gives_what_the_operation_of_tensorflow_gives(monkeypatch, ctc_opts, labels):
    options = {"labels": labels, "use_native": False, "output_in_log_space": True}
    loss, gradient = run(ctc_opts, **options)
    without_kernels(monkeypatch)
    expected_loss, expected_gradient = run(ctc_opts, **options)
    assert expected_loss > 0
    numpy.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    numpy.testing.assert_allclose(gradient, expected_gradient, atol=1e-5)


def decoded(loss_opts, *, scale=3.0, target="ids", roll=0):
    """:return: loss and error of CTC, with the classes moved by `roll`; types of the operations"""
    with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf1.Session(graph=graph) as session:
        loss = {"loss": "ctc", "loss_opts": {"output_in_log_space": True, **loss_opts}}
        scores = {"class": "eval", "from": "data", "eval": f"source(0) * {scale}", "target": target, **loss}
        labels = {"class": "eval", "from": "data:ids", "eval": f"source(0) + {roll}", "out_type": {"dim": 6}}
        net = construct({"output": {**scores, "is_output_layer": True}, "moved": labels}, train_flag=True)
        losses, _, _ = net.get_losses_initialized()
        batch = batch_of(padding={"float32": 0.0, "int32": 0})
        batch["data"] = numpy.roll(batch["data"], roll, axis=-1)
        feed = {net.extern_data.data[key].raw_tensor: batch[key] for key in ("data", "ids")}
        feed[net.extern_data.data["data"].batch.dim] = len(LENGTHS)
        for key in ("data", "ids"):
            feed[net.extern_data.data[key].get_time_dim_tag().dyn_size] = LENGTHS
        values = losses["output"].get_loss_value(), losses["output"].get_error_value()
        types = {op.type for op in graph.get_operations()}
        return session.run(values, feed), types


@pytest.mark.parametrize("beam_width", [1, 2, 100])
def test_error_is_the_distance_of_what_is_decoded(monkeypatch, beam_width):
    (_, found), types = decoded({"beam_width": beam_width})
    assert ("CTCBeamSearchDecoder" in types) is False
    without_kernels(monkeypatch)
    (_, expected), types = decoded({"beam_width": beam_width})
    assert ("CTCBeamSearchDecoder" in types) is (beam_width > 1)
    assert found == pytest.approx(expected)
    assert found > 0


@pytest.mark.parametrize("own", ["use_native", "use_viterbi"])
@pytest.mark.parametrize("beam_width", [1, 4])
def test_error_takes_the_blank_of_the_loss(own, beam_width):
    options = {own: True, "beam_width": beam_width}
    (loss, error), _ = decoded(options)
    (moved_loss, moved_error), _ = decoded(
        {**options, "ctc_opts": {"blank_index": 0}}, target="layer:moved", roll=1
    )  # blank, the last class of 6, is the first one now
    assert moved_loss == pytest.approx(loss)
    assert moved_error == pytest.approx(error)


def test_class_that_is_neither_label_nor_blank(caplog):
    forget_shown()
    decoded({"use_native": True, "beam_width": 1})
    assert not caplog.text
    decoded({"use_native": True, "beam_width": 1, "ctc_opts": {"blank_index": 0}})
    assert "the output has 6 classes, of which 0 is blank, but the target has 5 labels.\n  A label is the class" in (
        caplog.text
    )


@pytest.mark.parametrize("index", [None, -1])
def test_one_class_more_is_needed_unless_a_label_is_named_as_blank(index):
    options = {"use_native": True, "ctc_opts": {} if index is None else {"blank_index": index}}
    with pytest.raises(ConfigError) as info:
        decoded(options, target="layer:moved")
    option = "'blank_index' (in 'ctc_opts', with 'use_native')"
    assert str(info.value).endswith(
        "the output has 6 classes, of which 5 is blank, but the target has 6 labels.\n"
        f"  Either blank is the class behind the labels, the default of {option}: 'n_out' 7."
        f" Or {option} names a label that is in no target: 'n_out' 6."
    )


def test_merging_of_repeated_labels_has_two_names():
    without = [run({name: False}, output_in_log_space=True) for name in ("label_loop", "ctc_merge_repeated")]
    numpy.testing.assert_array_equal(without[0][0], without[1][0])
    assert without[0][0] > run({}, output_in_log_space=True)[0]  # fewer alignments


def test_the_two_names_cannot_contradict_each_other():
    with pytest.raises(ConfigError, match="'label_loop' and 'ctc_merge_repeated' contradict each other"):
        run({"label_loop": True, "ctc_merge_repeated": False})


@pytest.mark.parametrize("index", [6, -7])
def test_blank_is_one_of_the_classes(index):
    with pytest.raises(
        ConfigError, match=f"option 'blank_index': {index} of 6 classes.\n  Possible: 0 to 5, or -1 to -6"
    ):
        run({"blank_index": index})


@pytest.mark.parametrize("use_viterbi", [False, True])
def test_without_normalization_the_gradient_can_still_be_that_of_the_input_of_a_softmax(use_viterbi):
    options = {"use_native": not use_viterbi, "use_viterbi": use_viterbi, "output_in_log_space": True}
    scores = batch_of(padding={"float32": 0.0, "int32": 0})["data"]
    loss, of_input = run({"logits_normalize": False}, **options)
    same_loss, of_scores = run({"logits_normalize": False, "grad_wrt_softmax_in": False}, **options)
    assert loss == same_loss
    for x, a, b, length in zip(scores, of_input, of_scores, LENGTHS, strict=True):
        softmax = numpy.exp(x[:length]) / numpy.exp(x[:length]).sum(axis=-1, keepdims=True)
        numpy.testing.assert_allclose(a[:length], b[:length] + softmax, atol=1e-5)
        numpy.testing.assert_allclose(b[:length].sum(axis=-1), -1, atol=1e-5)  # minus a soft alignment
        assert not a[length:].any()


@pytest.mark.parametrize("behavior_version", [21, 30])
@pytest.mark.parametrize("zero_infinity", [None, True, False])
@pytest.mark.parametrize("by_config", [None, True, False])
def test_sequences_without_alignment(behavior_version, zero_infinity, by_config):
    more_than_frames = {"class": "postfix_in_time", "postfix": 1, "from": "data:ids"}
    options = {"output_in_log_space": True, "labels": more_than_frames, "behavior_version": behavior_version}
    with global_config_ctx(Config({} if by_config is None else {"tf_native_ctc_zero_infinity": by_config})):
        loss, gradient = run({"zero_infinity": zero_infinity, "blank_index": 5}, **options)
    assert loss == 0
    given = [option for option in (zero_infinity, by_config) if option is not None]
    if given[0] if given else behavior_version >= 30:
        assert not gradient.any()
        return
    scores = batch_of(padding={"float32": 0.0, "int32": 0})["data"]
    for x, grad, length in zip(scores, gradient, LENGTHS, strict=True):
        softmax = numpy.exp(x[:length]) / numpy.exp(x[:length]).sum(axis=-1, keepdims=True)
        numpy.testing.assert_allclose(grad[:length], softmax, rtol=1e-4, atol=1e-5)
        assert not grad[length:].any()


@pytest.mark.parametrize("train", [True, False])
def test_parameters_do_not_depend_on_whether_the_loss_is_computed(train):
    layer = {"class": "softmax", "from": "data", "loss": "ctc", "target": "ids"}
    with tf.Graph().as_default():
        BehaviorVersion.set(1)
        network = TFNetwork(config=Config({"extern_data": EXTERN_DATA}), train_flag=train, eval_flag=train)
        network.construct_from_dict({"output": layer})
    labels = network.extern_data.data["ids"].sparse_dim
    assert network.get_layer("output").output.dim == labels.dimension + 1
