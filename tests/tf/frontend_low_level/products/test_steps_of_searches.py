"""In loops that nobody asks gradients of, what native operations compute is what TensorFlow computes."""

import numpy
import pytest
import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.native import get_operations
from returnn.tf.frontend_low_level.nn.softmax import SoftmaxTFOps
from returnn.tf.frontend_low_level.products.loop_products import matmul
from returnn.tf.frontend_low_level.products.search_products import without_gradients
from returnn.tf.frontend_low_level.select import SelectTFOps

tf1 = tf.compat.v1
BEAM = 4


def scores_of_steps(*, is_search, shape=(None, None, BEAM, 40)):
    """:return: types of operations in the body of a loop; what it computes in three steps"""
    random = numpy.random.RandomState(1)
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        value = random.normal(size=(2, 5, BEAM, 40)).astype("float32")
        start = tf1.placeholder_with_default(value, shape)
        weights = tf.constant(random.normal(0.0, 0.2, size=(120, 40)), tf.float32)
        types = set()

        def computed(x):
            inner = tf.reshape(tf.concat([x, tf.tanh(x)], axis=-1), [-1, 80])
            product = matmul(tf.concat([inner, tf.reshape(x * 0.5, [-1, 40])], axis=1), weights)
            soft = SoftmaxTFOps.softmax_raw(tf.reshape(product, tf.shape(x)), 1)
            soft.set_shape(x.shape)
            values, places = SelectTFOps.top_k_raw(soft, 3, sorted=True)
            assert values.shape.as_list() == places.shape.as_list() == [*x.shape[:-1], 3]
            best = tf.gather(soft, places, batch_dims=3) + values * tf.cast(places, tf.float32)
            return tf.concat([best, soft[..., 3:]], axis=-1)

        def step(i, x):
            if is_search:
                with without_gradients():
                    x = computed(x)
            else:
                x = computed(x)
            types.update(op.type for op in tf1.get_default_graph().get_operations())
            return i + 1, x

        shapes = [tf.TensorShape([]), start.shape]
        _, final = tf1.while_loop(lambda i, x: i < 3, step, [0, start], shape_invariants=shapes)
        return types, session.run(final)


@pytest.mark.parametrize("shape", [(None, None, BEAM, 40), (None, 5, BEAM, 40)], ids=str)
def test_same_values(shape):
    if get_operations() is None:
        pytest.skip("no kernels")
    types, values = scores_of_steps(is_search=True, shape=shape)
    other_types, expected = scores_of_steps(is_search=False, shape=shape)
    found = {"ReturnnPackedProductOfParts", "ReturnnSoftmaxOfAxis", "ReturnnBestOfRow"}
    assert found <= types
    assert not types & {"MatMul", "Softmax", "TopKV2"}
    assert not found & other_types
    numpy.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-6)


def test_without_kernels(monkeypatch):
    monkeypatch.setenv("RETURNN_NATIVE", "0")
    types, values = scores_of_steps(is_search=True)
    assert not any(name.startswith("Returnn") for name in types)
    numpy.testing.assert_array_equal(values, scores_of_steps(is_search=False)[1])
