"""Gradients of matrices in loops, computed by one product after the loop, against those that TensorFlow derives."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import tensorflow as tf

from returnn.tf.frontend_low_level.products.loop_products import GradientCollector, matmul

tf1 = tf.compat.v1

SIZE, BATCH = 64, 3
TARGETS = ("variable", "given", "memory", "inputs")


@pytest.fixture(scope="module")
def session() -> Any:
    with tf.Graph().as_default(), tf1.Session() as session:
        yield session


def loop(*, collects: bool) -> tuple[tf.Tensor, dict[str, Any], Any]:
    """
    :return: something that depends on all products of a loop; what it has gradients for; placeholder of the length.
        Among the products are one with a transposed matrix, two with the same one, one of a batch, one with more rows
        in each frame, and one of two values of the frame
    """
    rnd = numpy.random.RandomState(3)
    values = {name: rnd.normal(0.0, 0.2, [SIZE, SIZE]) for name in TARGETS[:2]}
    values["memory"], values["inputs"] = rnd.normal(size=[BATCH, 5, SIZE]), rnd.normal(size=[BATCH, SIZE])
    given: dict[str, Any] = {name: tf.constant(value, "float64") for name, value in values.items()}
    given["variable"] = tf1.Variable(values["variable"], dtype="float64", use_resource=True)
    length = tf1.placeholder(tf.int32, [])
    collector = GradientCollector("float64")

    def body(i: Any, h: Any, past: Any, handle: Any) -> Any:
        if not collects:
            return i + 1, *frame(h, past), handle
        with collector.frame(handle):
            return i + 1, *frame(h, past), collector.after_frame()

    def frame(h: Any, past: Any) -> tuple[Any, Any]:
        h = tf.tanh(matmul(h, given["variable"]) + matmul(h, tf.identity(given["given"]), transpose_b=True))
        h = h + tf.reduce_mean(tf.reshape(matmul(past, given["given"]), [-1, BATCH, SIZE]), axis=0)
        energies = matmul(h[:, None], given["memory"], transpose_b=True)  # (BATCH, 1, 5)
        h = h + matmul(tf.nn.softmax(energies), given["memory"])[:, 0]
        h = h + matmul(h, matmul(h, h, transpose_a=True)) * 1e-3
        return h, tf.concat([past, h], axis=0)

    shapes = [tf.TensorShape(shape) for shape in ([], [BATCH, SIZE], [None, SIZE], [])]
    start = [tf.constant(0), given["inputs"], given["inputs"], collector.initial]
    final = tf1.while_loop(lambda i, *_: i < length, body, start, shape_invariants=shapes)
    if collects:
        collector.finish(final[-1])
    return tf.reduce_sum(tf.square(final[1])), given, length


@pytest.fixture(scope="module")
def gradients(session: Any) -> list[tuple[list[tf.Tensor], Any]]:
    """Gradients and the length of the loop: as they are collected, as TensorFlow derives them."""
    found = []
    for collects in (True, False):
        loss, given, length = loop(collects=collects)
        found.append((tf1.gradients(loss, [given[name] for name in TARGETS]), length))
    session.run(tf1.global_variables_initializer())
    return found


@pytest.mark.parametrize("num_frames", [0, 1, 4])
def test_gradients(session: Any, gradients: Any, num_frames: int) -> None:
    """The same for any number of frames, also for none."""
    actual, expected = (session.run(values, {length: num_frames}) for values, length in gradients)
    for name, a, b in zip(TARGETS, actual, expected, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("scope", "expected"), [("gradients/", 1), ("gradients_1/", 4)])
def test_products_in_loops(session: Any, gradients: Any, scope: str, expected: int) -> None:
    """In the loop backward, only the gradient of the matrix that differs from frame to frame is computed."""
    assert gradients
    functions = {f.signature.name: f.node_def for f in session.graph.as_graph_def().library.function}
    loops = [op for op in session.graph.get_operations() if op.type.endswith("While") and op.name.startswith(scope)]
    nodes = [node for op in loops for node in functions[op.get_attr("body").name]]
    assert sum(node.op == "MatMul" and node.attr["transpose_a"].b for node in nodes) == expected


def test_matrix_is_transposed_before_the_loop(session: Any, gradients: Any) -> None:
    """Backward, only products of two values of the frame have an operand to be transposed in each frame."""
    assert gradients
    functions = {f.signature.name: f.node_def for f in session.graph.as_graph_def().library.function}
    loops = [
        op for op in session.graph.get_operations() if op.type.endswith("While") and op.name.startswith("gradients/")
    ]
    nodes = [node for op in loops for node in functions[op.get_attr("body").name] if node.op == "MatMul"]
    assert sum(node.attr["transpose_b"].b for node in nodes) == 2
