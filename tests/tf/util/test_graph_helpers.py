"""Scopes, operations, control flow, tensor arrays, sizes."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import io
import re

import numpy
import pytest
import tensorflow as tf

from returnn.tf.util import basic
from returnn.util.errors import UserError

tf1 = tf.compat.v1


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf1.Session() as session:
        yield session


@pytest.mark.usefixtures("session")
class TestScopes:
    def test_a_scope_gets_exactly_its_name(self):
        for _ in range(2):
            with basic.reuse_name_scope("a"), basic.reuse_name_scope("b"):
                assert basic.get_current_name_scope() == "a/b"
                assert basic.get_current_var_scope_name() == "a/b"
                with basic.reuse_name_scope("c", absolute=True):
                    assert basic.get_current_name_scope() == basic.get_current_var_scope_name() == "c"
        with basic.reuse_name_scope("a", reuse=tf1.AUTO_REUSE):
            first, second = (tf1.get_variable("v", shape=()) for _ in range(2))
        assert first is second
        assert first.name == "a/v:0"

    def test_no_scope(self):
        with basic.opt_reuse_name_scope(None), basic.opt_reuse_name_scope(""):
            assert basic.get_current_name_scope() == ""
        with basic.opt_reuse_name_scope("x"):
            assert basic.get_current_name_scope() == "x"

    def test_scope_of_a_tensor(self):
        with tf.name_scope("a"), tf.name_scope("b"):
            x = tf.constant(1, name="x")
        assert (basic.get_name_scope_of_tensor(x), basic.get_base_name(x)) == ("a/b", "x")
        with basic.reuse_name_scope_of_tensor(x):
            assert basic.get_current_name_scope() == "a/b"
        with basic.reuse_name_scope_of_tensor(x, postfix="/c", add_tensor_name=True):
            assert basic.get_current_name_scope() == "a/b/x/c"

    @pytest.mark.parametrize("name", ["a", "prev:x", "data:source", "_a", "äö", "a b/c"])
    def test_valid_names(self, name):
        valid = basic.get_valid_scope_name_from_str(name)
        assert re.fullmatch(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*", valid)
        with tf.name_scope(valid):
            tf.constant(1)


def test_paths_in_a_graph(session):
    x = tf1.placeholder(tf.float32, (2, 3), name="x")
    y = tf.matmul(x, tf.ones((3, 4)), name="product")
    z = tf.nn.softmax(y, name="z")
    other = tf.constant(1.0)
    assert basic.find_ops_with_tensor_input(x) == [y.op]
    assert basic.find_ops_with_tensor_input([x, y], fetches=z) == [z.op, y.op]
    assert basic.find_ops_path_output_to_input(x, z) == [z.op, y.op]
    assert basic.find_ops_path_output_to_input(other, z) is None
    assert basic.get_op_input_names(y.op) == ["a", "b"]
    assert basic.get_op_inputs_by_name(y.op)["a"] is x
    assert basic.get_op_inputs_by_name(tf.concat([x, x], axis=0).op)["values"] == [x, x]
    assert "transpose_a" in basic.get_op_attrib_keys(y)
    text = basic.format_graph_output(z)
    assert text.splitlines()[:3] == [
        "z = Softmax -> float32[2, 4]", "  product = MatMul -> float32[2, 4]", "    x = Placeholder -> float32[2, 3]",
    ]  # fmt: skip
    stream = io.StringIO()
    basic.print_graph_output(z, file=stream, max_depth=0)
    assert stream.getvalue() == "z = Softmax -> float32[2, 4]\n"
    log = basic.check_base_op_type_and_replace(tf.identity(tf.reshape(z, [8])), "Softmax", "LogSoftmax")
    value = numpy.random.RandomState(1).normal(size=(2, 3))
    expected, actual = session.run([tf.reshape(tf.math.log(z), [8]), log], {x: value})
    numpy.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert basic.check_base_op_type_and_replace(y, "Softmax", "LogSoftmax") is None
    fields = basic.get_protobuf_fields(y.op.node_def)
    assert (fields["name"], fields["op"]) == ("product", "MatMul")


@pytest.mark.usefixtures("session")
def test_random_operations_without_a_seed():
    tf1.random_uniform((2,), seed=1)
    assert basic.get_non_deterministic_ops_from_graph() == []
    x = tf1.random_uniform((2,))
    assert [op.type for op in basic.get_non_deterministic_ops_from_graph()] == ["RandomUniform"]
    assert x is not None


def test_control_flow(session):
    outside = tf.constant(1)
    seen = {}

    def body(i):
        seen["inside"] = basic.has_current_control_flow_context(), basic.has_control_flow_context([i, outside])
        seen["right"] = basic.op_in_right_control_flow_context(outside)
        with basic.default_control_flow_ctx():
            seen["left"] = basic.has_current_control_flow_context()
            constant = tf.constant(2)
        with basic.same_control_flow_ctx(constant):
            seen["same"] = basic.get_root_graph() is tf1.get_default_graph()
        seen["i"] = i
        return i + constant

    result = tf.while_loop(lambda i: i < 5, body, [tf.constant(0)])
    assert session.run(result) == [6]
    assert seen.pop("i") is not None
    assert seen == {"inside": (True, True), "right": True, "left": False, "same": True}
    assert not basic.has_control_flow_context(outside)
    assert not basic.has_current_control_flow_context()


def test_operation_of_another_loop_is_not_in_the_right_context(session):
    seen = []
    tf.while_loop(lambda i: i < 5, lambda i: seen.append(i) or i + 1, [tf.constant(0)])
    assert not basic.op_in_right_control_flow_context(seen[0])
    assert session is not None


def test_tensor_arrays(session):
    array = tf.TensorArray(tf.float32, size=3, element_shape=(2,), clear_after_read=False).unstack(tf.ones((3, 2)))
    other = basic.tensor_array_like(array, size=4, dynamic_size=True)
    assert not basic.tensor_array_is_dynamic_size(array)
    assert basic.tensor_array_is_dynamic_size(other)
    assert not basic.tensor_array_is_clear_after_read(array)
    assert basic.tensor_array_element_shape(other).as_list() == [2]
    assert session.run(basic.tensor_array_stack(array, start=1)).shape == (2, 2)
    assert session.run([other.size(), basic.tensor_array_like(array).size()]) == [4, 3]


def test_sizes_are_simplified(session):
    a, b = (tf1.placeholder(tf.int32, (None,)) for _ in range(2))
    assert basic.simplify_add(a, 0) is a
    assert basic.simplify_add(0, b) is b
    assert basic.simplify_add(a - b, b) is a
    assert basic.simplify_sub(a + b, b) is a
    assert basic.simplify_sub(a + 2, 2) is a
    assert basic.simplify_sub(a, 0) is a
    assert basic.simplify_neg(basic.simplify_neg(a)) is a
    assert (basic.simplify_add(2, 3), basic.simplify_sub(2, 3), basic.simplify_neg(2)) == (5, -1, -2)
    assert basic.simplify_non_negative_seq_length(tf.maximum(a, 0)) is a
    assert basic.simplify_non_negative_seq_length(a) is a
    feed = {a: [5, 7], b: [1, 2]}
    values = session.run([basic.simplify_add(a, b), basic.simplify_sub(a, b), basic.simplify_add(a, -b)], feed)
    assert [value.tolist() for value in values] == [[6, 9], [4, 5], [4, 5]]
    assert session.run(basic.onnx_compat_floor_div(-a, 2), feed).tolist() == [-3, -4]
    axes = session.run(basic.broadcast_gradient_args(tf.constant([2, 1]), tf.constant([3])))
    assert [axis.tolist() for axis in axes] == [[1], [0]]


def test_variables(session):
    var = tf1.get_variable("v", shape=(2,), initializer=tf1.ones_initializer(), use_resource=True)
    value = basic.auto_init_var(var)
    assert session.run(value).tolist() == [1, 1]
    session.run(var.assign([2.0, 3.0]))
    assert session.run(value).tolist() == [2, 3]  # it is initialized once
    assert basic.get_variable_from_tensor(tf.identity(var.read_value())) is var
    assert basic.get_variable_from_tensor(tf.constant(1)) is None
    grad = tf.constant([1.0, 1.0])
    train = tf1.train.GradientDescentOptimizer(0.5).apply_gradients([(grad, var)])
    (update,) = basic.get_var_update_ops(var, fetches=train)
    before = basic.get_variable_value_copy_before_update_ops(var, [update])
    old, _ = session.run([before, train])
    assert old.tolist() == [2, 3]
    assert session.run(var).tolist() == [1.5, 2.5]
    assert basic.make_var_tuple([1, [2, 3]]) == (1, (2, 3))
    assert basic.make_var_tuple(1) == (1,)
    summaries = session.run(basic.variable_scalar_summaries_dict(var, name="v"))
    assert (summaries["v_mean"], summaries["v_max"], summaries["v_min"]) == (2, 2.5, 1.5)
    assert session.run(basic.variable_summaries(var, with_histogram=True))


def test_gradient_in_an_optimizer(session):
    var = tf1.get_variable("v", shape=(2,), use_resource=True)
    grad = tf.constant([1.0, 2.0])
    train = tf1.train.AdamOptimizer().apply_gradients([(grad, var)])
    found = basic.get_variable_grad_from_update_ops(var, basic.get_var_update_ops(var, fetches=train))
    session.run(tf1.global_variables_initializer())
    assert session.run(found).tolist() == [1, 2]


def test_versions_and_devices(session):
    assert basic.tf_version_tuple() >= (2, 0, 0)
    assert basic.have_min_tf_version((2, 0))
    with pytest.raises(UserError, match=r"TensorFlow 99.0 is needed: for something.\n  This is 2\."):
        basic.assert_min_tf_version((99, 0), "for something")
    assert next(device.device_type for device in basic.get_tf_list_local_devices()) == "CPU"
    with pytest.raises(UserError, match=r"there is no device '/device:TPU:7'.\n  Possible: /device:CPU:0"):
        basic.get_device_attr("/device:TPU:7")
    assert basic.get_device_attr("/device:CPU:0")
    assert basic.is_gpu_available() == bool(basic.get_available_gpu_devices())
    assert basic.is_gpu_available_in_session(session) in (True, False)
    assert "CPU" in basic.supported_devices_for_op("MatMul")
    assert any("float32" in line for line in basic.kernels_registered_for_op("MatMul"))
    tf.matmul(tf.ones((2, 2)), tf.ones((2, 2)))
    assert basic.find_unsupported_devices_in_graph(session.graph, "CPU") == []
    assert basic.find_unsupported_devices_in_graph(session.graph, "NOTHING")
    assert session.run(basic.mem_usage_for_dev("CPU:0")) >= 0
    stream = io.StringIO()
    basic.print_available_devices(file=stream)
    assert "(CPU)" in stream.getvalue()
