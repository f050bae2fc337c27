"""
Random networks: they work, the order of axes does not matter, and numpy computes the same.

More of them: `FUZZ_SEEDS=1000:2000 pytest tests/fuzz`.
"""

from __future__ import annotations

import os

import numpy
import pytest

from returnn.tensor import batch_dim
from tests.fuzz import feed_forward
from tests.fuzz.grammar import Net
from tests.fuzz.running import Result, run
from tests.fuzz.simulator import Simulator, Unknown
from tests.golden import golden

SEEDS = range(*map(int, os.environ.get("FUZZ_SEEDS", "0:16").split(":")))


def time_major(net: Net) -> bool:
    """:return: whether it could be changed to have its data the other way around"""
    data = net.extern_data["data"]
    if "dim_tags" in data:
        first, second, *others = data["dim_tags"]
        data["dim_tags"] = [second, first, *others]
    elif len(data.get("shape", (None, 1))) != 2 or data.get("shape", (None,))[0] is not None:
        return False
    elif data.get("time_dim_axis") == 0:
        del data["time_dim_axis"], data["batch_dim_axis"]
    else:
        data.update(shape=(None, data["dim"]), time_dim_axis=0, batch_dim_axis=1)
    return True


def has_batch_first(result: Result) -> bool:
    """:return: whether lengths of all outputs are over their first axis, as the comparison takes it"""
    lengths = {key: value for key, value in result.arrays.items() if key.startswith("outlen:")}
    return all(
        not value.ndim or len(value) == len(result.arrays[f"out:{key.split(':')[1]}"]) for key, value in lengths.items()
    )


@pytest.mark.filterwarnings("ignore")  # names that TensorFlow deprecates are part of the language of configs
@pytest.mark.parametrize("seed", SEEDS)
def test_time_major_data_gives_the_same(seed):
    net = feed_forward.make_network(seed)
    expected = run(net, list(net.layers))
    for name, out in expected.outputs.items():
        sizes = [dim.size for dim in out.dims]
        assert all(a in (b, None) for a, b in zip(sizes, expected.arrays[f"out:{name}"].shape, strict=True)), name
    other = feed_forward.make_network(seed)
    if time_major(other) and has_batch_first(expected):
        assert not expected.differences(run(other, list(net.layers)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", SEEDS)
def test_numpy_computes_the_same_for_one_sequence(seed):
    net = feed_forward.make_network(seed)
    result = run(net, list(net.layers), n_batch=1)
    simulator = Simulator(net, sequence_of(net, result), result.params)
    for name in net.layers:
        try:
            expected = simulator.value(name)
        except Unknown:
            continue
        numpy.testing.assert_allclose(own_frames(result, name, expected), expected, rtol=2e-4, atol=2e-5, err_msg=name)


def sequence_of(net: Net, result: Result) -> dict[str, numpy.ndarray]:
    """:return: the data of the only sequence"""
    data = {}
    for key, options in net.extern_data.items():
        if f"in:{key}" in result.inputs:
            dims = options.get("dim_tags", [batch_dim])
            is_time_major = options.get("batch_dim_axis") == 1 or not dims[0].is_batch_dim()
            value = result.inputs[f"in:{key}"]
            data[key] = value[:, 0] if is_time_major else value[0]
    return data


def own_frames(result: Result, name: str, expected: numpy.ndarray) -> numpy.ndarray:
    """:return: output of a layer, without the axis of the batch and without padded frames"""
    value, out = result.arrays[f"out:{name}"], result.outputs[name]
    for axis, dim in enumerate(out.dims):
        if dim.can_be_longer_in_memory():
            value = value.take(range(int(result.arrays[f"outlen:{name}:{axis}"][0])), axis=axis)
    value = value[0] if out.have_batch_axis() else value
    return golden._to_expected_layout(value, expected.shape)
