"""
Properties of all layer classes outside of loops: the layout in memory does not matter, gradients are right, and what is
built follows from the net dict alone.

Other properties of the same cases are in `test_feature_layers.py` and `test_shape_layers.py`.
"""

import re

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tf.layers.options.registry import get_layer_class, get_layer_class_name_list
from tests.tf.layers import feature_cases, shape_cases
from tests.tf.layers.layer_net import WITH_TIME, LayerNet, batch_of, construct

tf1 = tf.compat.v1
NETS = {"features": feature_cases.CASES, "shapes": shape_cases.ALL_CASES}
NAMES = [(kind, name) for kind, cases in NETS.items() for name in cases]
WITHOUT_CASE = {
    "HDFDumpLayer": "writes files",
    "ImageSummaryLayer": "writes summaries",
    "RandIntLayer": "random",
    "RandomLayer": "random",
    "RandomStateInitLayer": "random",
}
IN_LOOPS = tuple(f"returnn.tf.layers.{room}" for room in ("loop", "rec", "search"))  # these have cases of their own
PADDING = {"float32": 0.5, "int32": 0}


def test_every_layer_class_outside_of_loops_is_in_a_case():
    classes = {get_layer_class(name) for name in get_layer_class_name_list()}
    covered = {get_layer_class(desc["class"]) for cases in NETS.values() for desc in cases.values()}
    own = {cls for cls in classes if cls.__module__.startswith("returnn.")}  # scripts of other tests have theirs
    missing = {cls.__name__ for cls in own - covered if not cls.__module__.startswith(IN_LOOPS)}
    assert missing == set(WITHOUT_CASE)


# Time-major.


def time_major(batch):
    return {key: numpy.moveaxis(value, 1, 0) if key in WITH_TIME else value for key, value in batch.items()}


def in_one_order(out, value):
    """:return: value with the axes sorted by the names of the dims; what the names of layouts have in common"""
    order = sorted(range(len(out.dims)), key=lambda i: (not out.dims[i].is_batch_dim(), str(out.dims[i])))
    return numpy.transpose(value, order)


class BothLayouts:
    def __init__(self, cases):
        self.nets = [LayerNet(cases), LayerNet(cases, time_major=True)]
        batch = batch_of()
        self.results = [self.nets[0].run(batch), self.nets[1].run(time_major(batch))]
        self.outputs = [{name: batch_major(out) for name, out in net.outputs.items()} for net in self.nets]

    def of(self, name):
        return [in_one_order(out[name], values[name]) for out, values in zip(self.outputs, self.results, strict=True)]


def batch_major(out):
    return out.copy_template().copy_as_batch_major() if out.have_batch_axis() else out


@pytest.fixture(scope="module")
def layouts():
    return {kind: BothLayouts(cases) for kind, cases in NETS.items()}


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_time_major_data_gives_the_same(layouts, kind, name):
    batch_major, time_major = layouts[kind].of(name)
    numpy.testing.assert_allclose(time_major, batch_major, rtol=1e-4, atol=1e-5)


# Gradients.

# The gradient is not the derivative, as documented.
OTHER_GRADIENT = {
    "scaled_grad": "is scaled",
    "soft_alignment": "has none",
    "synthetic_gradient": "is a prediction",
    "gradient": "is that of a gradient of ReLU, which jumps",
    "tikhonov": "has a part from a loss",
    "counter": "changes in each run",
    "read": "is the counter",
}


def in_double_precision(desc):
    """:return: options of the layer, with another dtype if they say float32"""
    says_float32 = desc.get("dtype") == "float32" or desc["class"] in ("variable", "constant")
    return {**desc, "dtype": "float64"} if says_float32 and "float" in desc.get("dtype", "float") else desc


class GradientNet:
    """For each layer, a weighted sum of its output, and its gradient in one random direction of all inputs."""

    def __init__(self, cases):
        random = numpy.random.RandomState(3)
        cases = {name: in_double_precision(desc) for name, desc in cases.items()}
        with rf.set_default_float_dtype_ctx("float64"):
            self.net = LayerNet(cases, float_dtype="float64")
        net = self.net.net
        self.inputs = [net.extern_data.data[key].raw_tensor for key in ("data", "image", "vec")]
        self.batch = {
            key: value.astype("float64") if value.dtype == "float32" else value
            for key, value in batch_of(padding=PADDING).items()
        }
        with self.net.graph.as_default():
            self.params = net.get_trainable_params()
        values = [self.batch[key] for key in ("data", "image", "vec")]
        self.direction = [random.normal(size=value.shape) for value in values]
        self.direction_of_params = [random.normal(size=param.shape.as_list()) for param in self.params]
        with self.net.graph.as_default():
            totals = {
                name: self._total(out)
                for name, out in self.net.fetches.items()
                if out.dtype.is_floating or out.dtype.is_complex
            }
            slopes = {name: self._slope(total) for name, total in totals.items()}
            self.net.session = tf1.Session(graph=self.net.graph)  # one that has not seen a `cond` without gradients
            self.net.session.run(tf1.global_variables_initializer())
            self.start_values = self.net.session.run(self.params)
        self.totals, self.slopes = totals, slopes

    def _total(self, out):
        if out.dtype.is_complex:
            out = tf.math.real(out) + 0.5 * tf.math.imag(out)
        weights = tf.cos(tf.cast(tf.range(tf.size(out)), out.dtype)) + 0.3
        return tf.reduce_sum(tf.reshape(out, [-1]) * weights)

    def _slope(self, total):
        gradients = tf1.gradients(total, [*self.inputs, *self.params])
        directions = [*self.direction, *self.direction_of_params]
        parts = [tf.reduce_sum(g * d) for g, d in zip(gradients, directions, strict=True) if g is not None]
        return tf.add_n(parts) if parts else tf.zeros((), total.dtype)

    def in_a_batch_with_an_empty_sequence(self):
        """:return: by layer: its output with the padding, and its gradient"""
        self.net.fetches = {name: (self.net.outputs[name].raw_tensor, slope) for name, slope in self.slopes.items()}
        lengths = (5, 0, 4)
        return self.net.run({**self.batch, "sizes": self.batch["sizes"] * [[1], [0], [1]]}, lengths)

    def measure(self, epsilon=1e-6):
        self.net.fetches = self.slopes
        slopes = self.net.run(self.batch)
        self.net.fetches = self.totals
        before, after = self._moved(-epsilon), self._moved(epsilon)
        return {name: (slopes[name], (after[name] - before[name]) / (2 * epsilon)) for name in self.totals}

    def _moved(self, step):
        batch = dict(self.batch)
        for key, direction in zip(("data", "image", "vec"), self.direction, strict=True):
            batch[key] = batch[key] + step * direction
        with self.net.graph.as_default():
            for param, value, direction in zip(self.params, self.start_values, self.direction_of_params, strict=True):
                param.load(value + step * direction, self.net.session)
        return self.net.run(batch)


@pytest.fixture(scope="module")
def gradient_nets():
    return {kind: GradientNet(cases) for kind, cases in NETS.items()}


@pytest.fixture(scope="module")
def slopes(gradient_nets):
    return {kind: net.measure() for kind, net in gradient_nets.items()}


@pytest.mark.parametrize(("kind", "name"), [key for key in NAMES if key[1] not in OTHER_GRADIENT])
def test_gradient_is_the_derivative(slopes, kind, name):
    if name in slopes[kind]:
        gradient, differences = slopes[kind][name]
        numpy.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-6)


# Minus infinity is what there is in place of the largest entries of nothing.
OF_NOTHING = {"top_k", "top_k_two", "softmax_log"}


@pytest.mark.parametrize("kind", NETS)
def test_of_an_empty_sequence_all_is_finite(gradient_nets, kind):
    found = gradient_nets[kind].in_a_batch_with_an_empty_sequence()
    outputs = {name for name, (out, _) in found.items() if not numpy.isfinite(out).all()}
    assert outputs - OF_NOTHING == set()
    assert {name for name, (_, slope) in found.items() if not numpy.isfinite(slope)} == set()


# Equal net dicts.


@pytest.mark.parametrize("kind", NETS)
def test_equal_net_dicts_give_equal_graphs(kind):
    cases = {name: {**desc, "is_output_layer": True} for name, desc in NETS[kind].items()}
    cases["output"] = {"class": "copy", "from": "data"}
    graphs = []
    for _ in range(2):
        with tf.Graph().as_default() as graph, rf.backend_ctx("tf"):
            tf1.set_random_seed(1)
            construct(cases)
        graphs.append(graph.as_graph_def())
    assert [node.name for node in graphs[0].node] == [node.name for node in graphs[1].node]
    assert as_text(graphs[0].node) == as_text(graphs[1].node)
    functions = [as_text(sorted(graph.library.function, key=as_text_of_one)) for graph in graphs]
    assert functions[0] == functions[1]


def as_text_of_one(node):
    """:return: without the numbers by which TensorFlow tells the functions of a process apart"""
    return re.sub(r"((CustomGradient-)|(pyfunc_)|(_(cond|body|true|false)_))\d+", r"\1", str(node))


def as_text(nodes):
    return list(map(as_text_of_one, nodes))
