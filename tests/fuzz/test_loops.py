"""
Random loops: what is moved out of them computes what it does inside.

More of them: `FUZZ_SEEDS=1000:1100 pytest tests/fuzz/test_loops.py`.
"""

from __future__ import annotations

import os

import pytest

from returnn.util.errors import ConfigError
from tests.fuzz import frames, loops
from tests.fuzz.running import Result, run

SEEDS = range(*map(int, os.environ.get("FUZZ_SEEDS", "0:3").split(":")))


@pytest.mark.filterwarnings("ignore")  # names that TensorFlow deprecates are part of the language of configs
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("search", [False, True])
def test_moving_layers_out_of_the_loop_changes_nothing(seed, search):
    results = []
    for move_out in (False, True):
        net = loops.make_network(seed, search=search)
        net.layers["loop"]["optimize_move_layers_out"] = move_out
        wanted = ["output", "loop", *loops.inner_outputs(net), *(["best_len", "score"] if search else [])]
        results.append(run(net, wanted, search=search))
    assert not differences(*results)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", SEEDS)
def test_layers_of_all_kinds_compute_the_same_inside_and_outside(seed):
    results: list[Result | ConfigError] = []
    for move_out in (False, True):
        net = frames.make_network(seed)
        net.layers["loop"]["optimize_move_layers_out"] = move_out
        try:
            results.append(run(net, ["output", *(f"loop/{name}" for name in net.layers["loop"]["unit"])]))
        except ConfigError as exc:  # some combinations have to be refused, but then in both
            results.append(exc)
    inside, outside = results
    if isinstance(inside, ConfigError):
        assert isinstance(outside, ConfigError)
    else:
        assert isinstance(outside, Result), outside
        assert not differences(inside, outside)


def differences(inside: Result, outside: Result) -> list[str]:
    """:return: a line for each, without those that there have to be"""
    for name, out in outside.outputs.items():
        if len(out.dims) < len(inside.outputs[name].dims):  # it is the same in each step, and is outside only once
            del inside.arrays[f"out:{name}"]
    for result in (inside, outside):  # a loop has zeros as gradient, where there is none outside
        unused = [key for key, value in result.arrays.items() if key.startswith("grad:") and not value.any()]
        for key in (*unused, *filter(lambda key: not _is_over_batch(result, key), list(result.arrays))):
            del result.arrays[key]
    return inside.differences(outside)


def _is_over_batch(result: Result, key: str) -> bool:
    """:return: whether these are no lengths, or those of the first axis, as the comparison takes them"""
    if not key.startswith("outlen:"):
        return True
    value, lengths = result.arrays.get(f"out:{key.split(':')[1]}"), result.arrays[key]
    return value is not None and len(value.shape) > 0 and (not lengths.ndim or len(lengths) == len(value))
