import io
import math
import pickle

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.compat.util.math import (
    PiecewiseLinear,
    StepFunction,
    ceil_div,
    merge_random_seeds,
    next_power_of_two,
    simplify_and_format_number,
)
from returnn.util.basic import (
    Stats,
    class_idx_seq_to_1_of_k,
    compute_bleu,
    hms,
    hms_fraction,
    human_bytes_size,
    human_size,
    inplace_increment,
    load_txt_vector,
    model_epoch_from_filename,
    random_orthogonal,
    slice_pad_zeros,
    softmax,
)


@given(st.integers(-20, 20), st.integers(0, 20))
def test_slice_pad_zeros_is_a_slice_of_an_endless_array(begin, size):
    x = numpy.arange(1, 8)
    endless = {i: int(value) for i, value in enumerate(x)}
    expected = [endless.get(i, 0) for i in range(begin, begin + size)]
    assert list(slice_pad_zeros(x, begin, begin + size)) == expected
    assert slice_pad_zeros(x[None, :], begin, begin + size, axis=1).tolist() == [expected]


def test_arrays():
    numpy.testing.assert_allclose(softmax(numpy.array([[1000.0, 1000.0]]), axis=1), [[0.5, 0.5]])
    assert class_idx_seq_to_1_of_k(numpy.array([1, 0]), 2).tolist() == [[0, 1], [1, 0]]
    assert inplace_increment(numpy.zeros(2), numpy.array([0, 0]), numpy.array([1, 2])).tolist() == [3, 0]
    for shape in [(3, 5), (5, 3), (2, 2, 3)]:
        matrix = random_orthogonal(shape, seed=1).reshape(-1, shape[-1])
        small = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
        numpy.testing.assert_allclose(small, numpy.eye(len(small)), atol=1e-6)


def test_load_txt_vector(tmp_path):
    for content in ("1.5 2\n3 # comment\n", "[1.5, 2, 3]"):
        (tmp_path / "x").write_text(content)
        assert load_txt_vector(str(tmp_path / "x")) == [1.5, 2.0, 3.0]


def test_stats_is_the_same_in_parts(tmp_path):
    data = numpy.random.RandomState(1).normal(1000.0, 1.0, size=(50, 3))
    stats = Stats(format_str="%s")
    for part in (data[:10], data[10:10], data[10:11], data[11:]):
        stats.collect(part)
    numpy.testing.assert_allclose(stats.get_mean(), data.mean(axis=0))
    numpy.testing.assert_allclose(stats.get_std_dev(), data.std(axis=0))
    numpy.testing.assert_allclose(stats.max, data.max(axis=0))
    assert (stats.num_seqs, stats.total_data_len) == (3, 50)
    stream = io.StringIO()
    stats.dump(str(tmp_path / "stats"), stream=stream, stream_prefix="> ")
    assert stream.getvalue().startswith("> Stats(mean=")
    numpy.testing.assert_allclose(numpy.loadtxt(tmp_path / "stats.mean.txt"), data.mean(axis=0))


def test_bleu():
    reference = ["the", "cat", "sat", "on", "the", "mat", "today"]
    assert compute_bleu([reference], [reference]) == pytest.approx(1.0)
    assert compute_bleu([reference], ["dog"]) == 0.0
    # 1-grams 4/4, 2-grams 3/3; brevity penalty exp(1 - 7/4)
    assert compute_bleu([reference], [reference[:4]], max_order=2) == pytest.approx(math.exp(1 - 7 / 4))
    assert compute_bleu([reference], [reference[:4]], max_order=2, use_bp=False) == pytest.approx(1.0)


def test_human_readable():
    assert hms(3909.9) == "1:05:09"
    assert hms_fraction(1.25) == "0:00:01.2500"
    assert hms_fraction(59.99999) == "0:01:00.0000"
    assert human_size(5) == "5"
    assert human_size(1_500_000) == "1.5M"
    assert human_bytes_size(10 * 1024**3) == "10.0GB"


def test_epoch_of_a_checkpoint():
    for name in ("net/model.012", "model.pretrain.012.index", "model.012.data-00000-of-00001", "model.012.pt"):
        assert model_epoch_from_filename(name) == 12
    with pytest.raises(ValueError, match="the name 'model' has no epoch at its end"):
        model_epoch_from_filename("model")


def test_functions_of_the_step():
    linear = PiecewiseLinear({10: 1.0, 0: 0.0, 20: 0.0}, kw_name="step", ignore_other_kwargs=True)
    assert [linear(x) for x in (-1, 0, 5, 10, 15, 20, 30)] == [0.0, 0.0, 0.5, 1.0, 0.5, 0.0, 0.0]
    assert pickle.loads(pickle.dumps(linear))(step=5, other=1) == 0.5
    step = StepFunction({0: 1, 10: 2})
    assert [step(x) for x in (-1, 0, 9, 10, 99)] == [1, 1, 1, 2, 2]
    with pytest.raises(TypeError, match=r"StepFunction\({0: 1, 10: 2}\) takes one number"):
        step(1, other=2)


@given(st.integers(1, 1000), st.integers(1, 50))
def test_integers(a, b):
    assert ceil_div(a, b) == math.ceil(a / b)
    assert next_power_of_two(a) >= a > next_power_of_two(a) // 2


def test_seeds():
    seeds = {merge_random_seeds([a, b]) for a in range(10) for b in range(10)}
    assert len(seeds) == 100
    assert max(seeds) < 2**32
    assert simplify_and_format_number(2.0) == "2"
    assert simplify_and_format_number(2.5) == "2.5"
