"""Kernels as operations of TensorFlow."""

import subprocess
import sys

import numpy
import pytest
import tensorflow as tf

from returnn.tf.frontend_low_level.kernels import native
from returnn.tf.frontend_low_level.kernels.lstm_scan import lstm_scan
from tests.native import lstm_reference

tf1 = tf.compat.v1


@pytest.fixture(scope="module")
def operations():
    found = native.get_operations()
    if found is None:
        pytest.skip("there is no compiler")
    return found


def random_inputs(frames=6, batch=5, units=9):
    return lstm_reference.random_inputs(numpy.random.RandomState(1), "float32", frames=frames, batch=batch, units=units)


@pytest.fixture
def inputs():
    with tf.Graph().as_default():
        placeholder = tf1.placeholder("float32", [None, 5, 36], name="x")
        constants = {name: tf.constant(value, name=name) for name, value in random_inputs().items()}
        yield {**constants, "x": placeholder}


def test_results_have_the_shapes_of_the_signature(operations, inputs):
    results = operations.call("lstm", inputs, backward=False)
    assert {name: x.shape.as_list() for name, x in results.items()} == {
        "h": [None, 5, 9], "c": [None, 5, 9], "last_h": [5, 9], "last_c": [5, 9], "gates": [None, 5, 36],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["x", "c0", "lengths"])
def test_wrong_shapes_are_found_when_the_graph_is_made(operations, inputs, name):
    with pytest.raises(ValueError, match=f"{name} has the shape .*, but .* is expected"):
        operations.call("lstm", {**inputs, name: inputs[name][..., 1:]}, backward=False)


def test_wrong_shapes_are_found_when_it_runs(operations, inputs):
    shape = tf1.placeholder_with_default([6, 8], [2])
    results = operations.call("lstm", {**inputs, "c0": tf.zeros(shape)}, backward=False)
    expected = r"ReturnnLstm: c0 has the shape \(6, 8\), but \[N, F\] is expected, with F = 9, N = 5, T = 6"
    with tf1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=expected):
        session.run(results["h"], {inputs["x"]: random_inputs()["x"]})


def test_wrong_lengths_are_found_when_it_runs(operations, inputs):
    results = operations.call("lstm", {**inputs, "lengths": inputs["lengths"] + 7}, backward=False)
    expected = "ReturnnLstm: a length is below 0, or above the number of frames"
    with tf1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=expected):
        session.run(results["h"], {inputs["x"]: random_inputs()["x"]})


@pytest.mark.parametrize("wanted", [("h",), ("h", "c"), ("last_h",), ("h", "c", "last_h", "last_c")])
@pytest.mark.parametrize("threads", [1, 3])
def test_same_as_the_loop_of_tensorflow(operations, inputs, wanted, threads):
    values = {**random_inputs(), "lengths": numpy.full([5], 6, "int32")}
    values["x"] = numpy.nan_to_num(values["x"])
    differentiable = [inputs[name] for name in ("x", "weights", "c0", "h0")]
    native_results = operations.call("lstm", {**inputs, "lengths": tf.constant(values["lengths"])}, backward=False)
    c, h = lstm_scan(*differentiable)
    loop_results = {"h": h, "c": c, "last_h": h[-1], "last_c": c[-1]}
    both = []
    for results in (native_results, loop_results):
        outputs = [results[name] for name in wanted]
        grads = tf.gradients([x * tf.cos(tf.range(9.0)) for x in outputs], differentiable)
        both.append([*outputs, *grads])
    with tf1.Session(config=tf1.ConfigProto(intra_op_parallelism_threads=threads)) as session:
        for x, expected in zip(*session.run(both, {inputs["x"]: values["x"]}), strict=True):
            numpy.testing.assert_allclose(x, expected, atol=1e-5)


def test_gradients_of_inputs_that_are_not_there_and_of_optional_ones(operations, inputs):
    values = lstm_reference.random_inputs(
        numpy.random.RandomState(1), "float32", frames=6, batch=5, units=9, peepholes=True
    )
    peepholes = tf.constant(values["peepholes"])
    results = operations.call("lstm", {**inputs, "peepholes": peepholes}, backward=True)
    (grad,) = tf.gradients(results["h"], peepholes)
    outputs = {f"d_{name}": numpy.zeros_like(values["c0"]) for name in ("last_h", "last_c")}
    outputs |= {"d_h": numpy.ones([6, 5, 9]), "d_c": numpy.zeros([6, 5, 9])}
    direction = numpy.random.RandomState(2).normal(size=(3, 9))
    with tf1.Session() as session:
        actual = session.run(tf.reduce_sum(grad * direction.astype("float32")), {inputs["x"]: values["x"]})
    behind = numpy.arange(6)[:, None] >= values["lengths"]
    outputs["d_h"][behind] = 0
    expected = lstm_reference.derivative(values, outputs, "peepholes", direction, backward=True)
    assert actual == pytest.approx(expected, rel=1e-4)


_LOAD = """
import sys, numpy, tensorflow as tf
library, graph_file, result_file = sys.argv[1:]
tf.load_op_library(library)
graph_def = tf.compat.v1.GraphDef.FromString(open(graph_file, "rb").read())
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    x, grad = tf.import_graph_def(graph_def, name="", return_elements=["x:0", "grad:0"])
    assert grad.shape.as_list() == [None, 5, 36], grad.shape
    numpy.save(result_file, session.run(grad, {x: numpy.ones([6, 5, 36])}))
"""


def test_saved_graph_runs_in_tensorflow_alone(operations, inputs, tmp_path):
    results = operations.call("lstm", {**inputs, "lengths": tf.fill([5], 6)}, backward=False)
    grad = tf.identity(tf.gradients(results["h"], inputs["x"])[0], name="grad")
    (tmp_path / "graph.pb").write_bytes(tf1.get_default_graph().as_graph_def().SerializeToString())
    files = [operations.filename, str(tmp_path / "graph.pb"), str(tmp_path / "result.npy")]
    subprocess.run([sys.executable, "-c", _LOAD, *files], check=True, cwd=tmp_path)
    with tf1.Session() as session:
        expected = session.run(grad, {inputs["x"]: numpy.ones([6, 5, 36])})
    numpy.testing.assert_array_equal(numpy.load(files[-1]), expected)


def test_operations_on_constants_alone_are_computed_when_the_graph_is_optimized(operations):
    with tf.Graph().as_default(), tf1.Session() as session:
        constants = {name: tf.constant(value) for name, value in random_inputs().items()}
        values = session.run(operations.call("lstm", constants, backward=False))
    assert numpy.isfinite(values["h"]).all()


def test_results_of_kernels_without_gradient_are_constants(operations):
    with tf.Graph().as_default():
        x = tf.ones([2, 1, 3])
        edges = {name: tf.zeros([1], tf.int32) for name in ("source", "target", "label", "sequence")}
        scores = {name: tf.zeros([1]) for name in ("weight", "start", "end")}
        mask = tf.ones([2, 1], tf.uint8)
        inputs = {"scores": x, **edges, **scores, "sequence_of_state": tf.zeros([1], tf.int32), "mask": mask}
        assert tf.gradients(operations.call("automaton_posteriors", inputs)["total"], x) == [None]
