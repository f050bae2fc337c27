import numpy
import pytest
import tensorflow as tf

from returnn.tf.optimizers.clip import clip_by_global_norm, global_norm


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_global_norm_of_dense_and_sparse_gradients(dtype):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dense = tf.constant([[300.0, 0.0]], dtype)
        sparse = tf.IndexedSlices(tf.constant([[0.0, 400.0]], dtype), tf.constant([3]), tf.constant([10, 2]))
        assert session.run(global_norm([dense, sparse])) == 500.0
        (clipped, _), (clipped_sparse, _) = clip_by_global_norm([(dense, None), (sparse, None)], 5.0)
        numpy.testing.assert_allclose(session.run(clipped), [[3.0, 0.0]], rtol=1e-3)
        numpy.testing.assert_allclose(session.run(clipped_sparse.values), [[0.0, 4.0]], rtol=1e-3)
        assert clipped.dtype == dtype


def test_norm_that_is_not_finite_makes_all_gradients_nan():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        pairs = [(tf.constant([1.0]), None), (tf.constant([numpy.inf]), None)]
        assert numpy.isnan(session.run([grad for grad, _ in clip_by_global_norm(pairs, 1.0)])).all()
