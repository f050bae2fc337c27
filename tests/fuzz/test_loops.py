"""Random loops: what is moved out of them computes what it does inside."""

from __future__ import annotations

import os

import pytest

from tests.fuzz import loops
from tests.fuzz.running import run

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
    inside, outside = results
    for name, out in outside.outputs.items():
        if len(out.dims) < len(inside.outputs[name].dims):  # it is the same in each step, and is outside only once
            del inside.arrays[f"out:{name}"]
    assert not inside.differences(outside)
