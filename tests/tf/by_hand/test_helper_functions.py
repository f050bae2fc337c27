"""Functions on raw tensors, that scripts take from `returnn.tf.util.basic`, and from layer classes."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

import returnn.tf.util.basic as util
from returnn.config import Config
from returnn.tensor import Tensor as Data
from returnn.tf.layers.basic import ConvLayer, TransposedConvLayer
from returnn.tf.network import TFNetwork
from returnn.tf.util.data import BatchInfo, SearchBeam, SpatialDim
from returnn.util.basic import NumbersDict
from tests.tf.by_hand.scripts import make_feed_dict, make_network, make_scope, tf1

equal = numpy.testing.assert_allclose


@pytest.fixture
def session():
    with make_scope() as session:
        yield session


def test_axes(session):
    values = numpy.arange(24.0).reshape(2, 3, 4).astype("float32")
    x = tf.constant(values)
    assert session.run(util.move_axis(x, 0, 2)).shape == (3, 4, 2)
    equal(session.run(util.pad_zeros_in_axis(x, before=1, axis=1))[:, 0], 0.0)
    equal(session.run(util.pad_replicate(x, axes=[1], padding=1))[:, 0], values[:, 0])
    equal(session.run(util.directed(x, -1)), values[::-1])
    for axis in (2, tf.constant(2)):
        equal(session.run(util.single_strided_slice(x, axis, begin=1, end=4, step=2)), values[:, :, 1:4:2])
    wide = util.circular_pad(x[None, :, :3, :1], paddings=((1, 1), (1, 1)), axes=(1, 2))
    equal(session.run(wide)[0, 0, :, 0], [20, 12, 16, 20, 12])


def test_axes_of_arrays(session):
    values = numpy.arange(24.0).reshape(2, 3, 4).astype("float32")
    windows = session.run(util.windowed_nd(values, window_size=3))
    assert windows.shape == (2, 3, 3, 4)
    equal(windows[:, 1], values)
    equal(session.run(util.dimshuffle(values, (2, "x", 0, 1)))[:, 0], values.transpose(2, 0, 1))
    equal(session.run(util.expand_multiple_dims(values, [0]))[0], values)
    equal(session.run(util.move_axis(values, 0, 2)), values.transpose(1, 2, 0))
    equal(session.run(util.swapaxes(values, 0, 2)), values.transpose(2, 1, 0))
    equal(session.run(util.pad_zeros_in_axis(values, after=1)), numpy.pad(values, [(0, 1), (0, 0), (0, 0)]))
    equal(session.run(util.circular_pad(values, 1, axes=[0]))[1:3], values)
    equal(session.run(util.single_strided_slice(values, 1, begin=1)), values[:, 1:])
    equal(session.run(util.concat_with_opt_broadcast([values, values[:1]], [False, True], axis=1))[1, 3:], values[0])
    assert session.run(util.nd_indices(numpy.array([2, 0]))).tolist() == [[0, 2], [1, 0]]


def test_sizes_that_may_be_repeated(session):
    a, b = tf.zeros((2, 1, 3)), tf.ones((2, 4, 3))
    assert session.run(util.concat_with_opt_broadcast([a, b], [True, False], axis=2)).shape == (2, 4, 6)
    assert session.run(util.unbroadcast_to_common_shape(a, [2, 4, 5], ignore_axes=[2])).shape == (2, 4, 3)


def test_gradients_that_pass(session):
    x = tf.constant([-2.0, 0.5, 3.0])
    cases = [
        (lambda x: util.clip_by_value_with_identity_grad(x, -1.0, 1.0), [-1, 0.5, 1], 1.0),
        (lambda x: util.maximum_with_identity_grad(x, tf.zeros_like(x)), [0, 0.5, 3], 1.0),
        (lambda x: util.minimum_with_identity_grad(x, tf.zeros_like(x)), [-2, 0, 0], 1.0),
        (lambda x: util.flip_gradient(x, scale=0.5), [-2, 0.5, 3], -0.5),
        (util.FlipGradientBuilder(), [-2, 0.5, 3], -1.0),
        (lambda x: util.SyntheticGradient.synthetic_gradient(x, 2.0 * tf.ones_like(x)), [-2, 0.5, 3], 2.0),
    ]
    for function, value, gradient in cases:
        y = function(x)
        found = session.run([y, tf1.gradients(y, x)[0]])
        equal(found[0], value)
        equal(found[1], gradient)


def test_labels(session):
    x, lengths = tf.constant([[1, 1, 2, 0], [3, 3, 3, 0]]), tf.constant([4, 3])
    sparse = util.sparse_labels(x, lengths)
    equal(session.run(sparse).values, [1, 1, 2, 0, 3, 3, 3])
    equal(session.run(util.remove_labels(sparse, [3])).values, [1, 1, 2, 0])
    merged, merged_lengths = util.sparse_labels_with_seq_lens(x, lengths, collapse_repeated=True, post_filter_idx=0)
    equal(session.run(merged).values, [1, 2, 3])
    equal(session.run(merged_lengths), [2, 1])
    equal(session.run(util.get_sparse_tensor_length(merged)), [2, 1])
    equal(session.run(util.batched_uniq(x, lengths)[1]), [3, 1])


def test_new_labels_in_the_form_of_the_old_ones(session):
    x, new = tf.constant([[1, 1, 2, 0]]), {0: 5, 1: 6, 2: 7}
    equal(session.run(util.map_labels(x, new)), [[6, 6, 7, 5]])
    sparse = util.sparse_labels(x, tf.constant([4]))
    equal(session.run(util.map_labels(sparse, new)).values, [6, 6, 7, 5])
    equal(session.run(util.map_labels(sparse, {**new, 1: None})).values, [7, 5])
    data = Data("x", shape=(None,), dim=3, sparse=True, placeholder=x)
    equal(session.run(util.map_labels(data, new).placeholder), [[6, 6, 7, 5]])


def test_positions(session):
    table = session.run(util.get_positional_encoding(num_channels=4, length=5))
    equal(table[0], [0, 0, 1, 1])
    some = util.get_positional_encoding(num_channels=4, position=tf.constant([0, 2, 4]))
    equal(session.run(some), table[[0, 2, 4]], rtol=1e-5)


def test_operations_in_their_order(session):
    variable = tf1.get_variable("counter", shape=(), initializer=tf1.zeros_initializer())
    steps = [
        lambda: variable.initializer,
        lambda: variable.assign(3.0, read_value=False),
        lambda: variable.assign(variable.read_value() + 5.0, read_value=False),
    ]
    with util.sequential_control_dependencies(steps):
        value = tf.identity(variable.read_value())
    assert session.run(value) == 8.0


def test_values(session):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    equal(session.run(util.l1_normalized(x)), [[1 / 3, 2 / 3], [3 / 7, 4 / 7]], rtol=1e-5)
    equal(session.run(util.lin_exp_normed(x)).sum(-1), 1.0, rtol=1e-5)
    equal(session.run(util.batch_gather(x, tf.constant([1, 0]))), [2, 3])
    equal(session.run(util.openai_layer_norm(x, tf.ones(2), tf.zeros(2), axis=1)), [[-1, 1], [-1, 1]], rtol=1e-4)
    equal(session.run(util.gaussian_kernel_2d(3, 1.0)).sum(), 1.0, rtol=1e-5)
    grid = tf.reshape(tf.range(9.0), (1, 3, 3, 1))
    equal(session.run(util.interpolate_bilinear(grid, tf.constant([[[0.5, 0.5]]]))), [[[2.0]]])
    assert util.optional_add(None, None) is None
    assert util.opt_logical_and(False, tf.constant(True)) is False


def test_numbers_of_frames(session):
    for size, stride, padding, expected in [
        (2, 1, "same", 10),
        (3, 2, "same", 5),
        (3, 1, "valid", 8),
        (3, 2, "valid", 4),
    ]:
        assert ConvLayer.calc_out_dim(in_dim=10, filter_size=size, stride=stride, padding=padding) == expected
    lengths = ConvLayer.calc_out_dim(tf.constant([10, 7]), filter_size=3, stride=1, padding="valid", dilation_rate=2)
    equal(session.run(lengths), [6, 3])
    lengths = TransposedConvLayer.deconv_output_length(tf.constant([4, 5]), filter_size=3, padding="valid", stride=2)
    equal(session.run(lengths), [9, 11])
    time = SpatialDim("time")
    out = ConvLayer.calc_out_dim(time, filter_size=3, stride=1, padding="valid")
    assert out == time - 2


def test_whether_a_network_trains(session):
    flag = tf1.placeholder_with_default(True, ())
    network = TFNetwork(config=Config({"extern_data": {"data": {"dim": 2}}}), train_flag=flag)
    with network.register_network_scope():
        assert TFNetwork.get_current_network() is network
        value = util.cond_on_train_flag(lambda: tf.constant(1.0), lambda: tf.constant(2.0))
    assert TFNetwork.get_current_network(must_exist=False) is None
    assert [session.run(value, {flag: train}) for train in (True, False)] == [1.0, 2.0]


def test_updates_of_a_variable(session):
    variable = tf1.get_variable("mean", shape=(2,), initializer=tf1.zeros_initializer())
    util.CustomUpdateExpAverage(average=tf.constant([2.0, 4.0]), alpha=0.5).set_on_var(variable)
    session.run(variable.initializer)
    session.run(variable.returnn_custom_update.update_var(variable))
    equal(session.run(variable), [1, 2])


def test_output_before_its_activation(session):
    x = tf.constant([[1.0, 2.0]])
    softmax = util.OutputWithActivation(x, act_func=tf.nn.softmax)
    assert softmax.is_softmax_act_func()
    assert softmax.get_logits() is x
    for activation in (tf.nn.softmax, tf.nn.sigmoid):
        output = util.OutputWithActivation(x, act_func=activation)
        equal(numpy.exp(session.run(output.get_log_output())), session.run(output.y), rtol=1e-5)


def test_batches_made_of_others(session):
    batch = BatchInfo.make_global_batch_info(tf.constant(3))
    time = SpatialDim("time")
    time.dyn_size = tf.constant([3, 2, 1])
    padded = batch.copy_extend_with_padded_dim_tag(time, batch_major=True)
    assert session.run(padded.dim) == 9
    assert padded.copy_remove_dim(padded.virtual_dims[-1]).is_global_batch()
    beam = batch.copy_extend_with_beam(SearchBeam(beam_size=2))
    assert session.run(beam.dim) == 6
    assert beam.get_global_base() is batch


def test_what_a_layer_says_of_itself(session):
    layers = {"a": {"class": "linear", "n_out": 5, "activation": "tanh", "from": "data", "L2": 0.5}}
    layers["output"] = {"class": "softmax", "from": "a", "loss": "ce", "target": "classes"}
    network = make_network(layers, train_flag=True)
    network.initialize_params(session)
    layer, feed = network.layers["a"], make_feed_dict(network.extern_data, same_time=True)
    assert layer.get_hidden_state() is None
    assert layer.get_search_beam_size() is None
    assert set(layer.get_saveable_params_dict()) == {"W", "b"}
    constraints, norm = session.run([layer.get_constraints_value(), layer.get_params_l2_norm()])
    equal(constraints, 0.5 * norm, rtol=1e-6)
    losses, _, _ = network.get_losses_initialized(with_total=True)
    loss = losses["output"]
    per_frame = session.run(loss.get_loss_value_per_pos(), feed)
    equal(per_frame.sum(), session.run(loss.get_loss_value(), feed), rtol=1e-5)
    equal(session.run(loss.get_norm_factor(), feed), 1.0 / per_frame.size, rtol=1e-6)
    network.set_global_train_step(7, session)
    assert network.get_global_train_step(session) == 7


def test_numbers_by_key():
    a, b = NumbersDict({"a": 1, "b": 2}), NumbersDict({"a": 3, "c": 4})
    assert a + b == NumbersDict({"a": 4, "b": 2, "c": 4})
    assert (a - b)["c"] == -4
    assert NumbersDict.max([a, b]) == NumbersDict({"a": 3, "b": 2, "c": 4})
    assert a.unary_op(lambda x: -x) == -a
    assert NumbersDict(5)["x"] == 5
    assert (a.min_value(), a.max_value()) == (1, 2)


def test_strings_of_labels(session):
    vocab = util.get_shared_vocab(["a", "b", "c"])
    labels = util.vocab_idx_to_vocab_string(tf.constant([[0, 2]]), vocab)
    assert session.run(labels).tolist() == [[b"a", b"c"]]


def test_random_values(session):
    assert util.get_random_seed() != util.get_random_seed()
    values = util.xavier_initializer(uniform=False, seed=1)((3, 4), tf.float64)
    assert values.dtype == tf.float64
    assert session.run(values).std() > 0


def test_seeds_without_one_for_the_graph():
    with tf.Graph().as_default():
        first = util.get_random_seed()
        tf.constant(1)
        assert util.get_random_seed() != first


def test_gradient_of_plain_gradient_descent(session):
    variable = tf1.get_variable("v", initializer=tf.constant([1.0, 2.0]))
    update = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(variable * variable))
    ops = util.get_var_update_ops(variable, fetches=update)
    gradient = util.get_variable_grad_from_update_ops(variable, ops)
    session.run(variable.initializer)
    equal(session.run([gradient, update])[0], [2, 4])
