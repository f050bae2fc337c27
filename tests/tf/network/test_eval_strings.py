"""What eval strings of real configs call."""

import numpy
import pytest

from returnn.config import Config
from tests.tf.network.old_config import LENGTHS, ConfigNet

X = numpy.random.RandomState(1).uniform(0.1, 2.0, size=(3, 7, 6)).astype("float32")


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


CASES = {
    "tf.cast(source(0) > 1.0, 'float32')": (X > 1).astype("float32"),
    "tf.clip_by_value(source(0), 0.5, 1.5)": X.clip(0.5, 1.5),
    "safe_log(source(0))": numpy.log(X),
    "tf.to_float(tf.equal(tf.minimum(source(0), 1.0), source(0)))": (X <= 1).astype("float32"),
    "where_bc(source(0) > 1.0, source(0), 0.0)": numpy.where(X > 1, X, 0),
    "tf.where(tf.greater(source(0), 1.0), source(0), tf.zeros_like(source(0)))": numpy.where(X > 1, X, 0),
    "tf.log_sigmoid(source(0))": numpy.log(sigmoid(X)),
    "tf.compat.v1.log_sigmoid(source(0))": numpy.log(sigmoid(X)),
    "tf_compat.v1.log_sigmoid(source(0))": numpy.log(sigmoid(X)),
    "log_sigmoid(source(0))": numpy.log(sigmoid(X)),
    "tf.exp(-tf.abs(source(0)))": numpy.exp(-X),
    "tf.maximum(source(0), tf.ones_like(source(0)))": X.clip(1),
    "tf.math.l2_normalize(source(0), axis=-1)": X / numpy.sqrt((X**2).sum(-1, keepdims=True)),
    "source(0) - tf.math.reduce_logsumexp(source(0), axis=-1, keepdims=True)": X
    - numpy.log(numpy.exp(X).sum(-1, keepdims=True)),
    "tf.nn.softmax(source(0), dim=-1)": numpy.exp(X) / numpy.exp(X).sum(-1, keepdims=True),
    "tf.math.sqrt(tf.math.square(tf.stop_gradient(source(0))))": X,
    "tf.math.divide_no_nan(source(0), 2.0) + tf.math.floordiv(source(0), 1.0)": X / 2 + X // 1,
    "tf.round(source(0)) + tf.to_float(tf.math.floormod(tf.range(6), 2))": numpy.round(X) + numpy.arange(6) % 2,
    "source(0) / tf.norm(source(0), axis=-1, keep_dims=True)": X / numpy.linalg.norm(X, axis=-1, keepdims=True),
    "source(0) * tf.to_float(tf.logical_not(tf.logical_and(source(0) > 0.5, source(0) < 1.0)))": X
    * ~((X > 0.5) & (X < 1)),
    "source(0) * tf.expand_dims(tf.to_float(tf.argmax(source(0), axis=-1)), 2)": X * X.argmax(-1)[..., None],
    "tf.expand_dims(tf.squeeze(source(0)[:, :, :1], axis=2), -1) + source(0)": X[:, :, :1] + X,
    "source(0) * tf.reshape(tf.to_float(source(0, as_data=True).get_sequence_lengths()), [-1, 1, 1])": X
    * numpy.array(LENGTHS)[:, None, None],
    "source(0) + source(0, as_data=True).get_axis_from_description('T')": X + 1,
    "source(0) * float(self.network.get_config().typed_value('factor'))": X * 3,
    "source(0) * float(network.get_config().float('factor', 1.0)) + len(self.sources)": X * 3 + 1,
    "source(0) * tf.to_float(tf.shape(source(0))[2]) + tf.reduce_sum(source(0), axis=2, keepdims=True)": X * 6
    + X.sum(-1, keepdims=True),
    "tf_util.tile_transposed(source(0), 0, 1) + numpy.float32(1)": X + 1,
    "(lambda x: x * x)(source(0))": X * X,
    "[source(0) for i in range(2)][0]": X,
}


@pytest.fixture(scope="module")
def results():
    net_dict = {
        f"case{i}": {"class": "eval", "from": "data", "eval": code, "is_output_layer": True}
        for i, code in enumerate(CASES)
    }
    net_dict["output"] = {"class": "copy", "from": "data"}
    net = ConfigNet(Config({"extern_data": {"data": {"dim": 6}}, "network": net_dict, "factor": 3}))
    values = net.run([f"case{i}" for i in range(len(CASES))], values={"data": X})
    return dict(zip(CASES, values, strict=True))


@pytest.mark.parametrize("code", CASES)
def test_eval_string(results, code):
    numpy.testing.assert_allclose(results[code], CASES[code], rtol=1e-4, atol=1e-6)


def test_random_operations_have_other_values_each_time():
    code = "source(0) * tf.random.uniform(tf.shape(source(0))) + 0.0 * tf.random.shuffle(source(0))"
    net_dict = {"output": {"class": "eval", "from": "data", "eval": code}}
    net = ConfigNet(Config({"extern_data": {"data": {"dim": 6}}, "network": net_dict}))
    assert not numpy.array_equal(net.run(values={"data": X}), net.run(values={"data": X}))
