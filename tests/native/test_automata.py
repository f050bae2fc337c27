import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native import alignment_reference as reference
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

TOLERANCE = {"float32": 2e-5, "float64": 1e-11}
# frames, batch, classes, states and edges per sequence: no frames, one state, many, no edges
SIZES = [(0, 2, 3, 3, 5), (1, 1, 1, 1, 1), (6, 4, 5, 4, 9), (9, 3, 40, 20, 70), (3, 3, 2, 3, 2), (4, 2, 3, 2, 0)]
NEVER = -1e30


def random_case(sizes, dtype, seed=1):
    """:return: inputs: states and edges in any order, several start and end states, frames without mask, of NaN"""
    num_frames, batch, classes, states, edges = sizes
    random = numpy.random.RandomState(seed + sum(sizes))
    sequence_of_state = random.permutation(numpy.repeat(numpy.arange(batch), states)).astype("int32")
    sequence = random.permutation(numpy.repeat(numpy.arange(batch), edges)).astype("int32")
    own = [numpy.flatnonzero(sequence_of_state == n) for n in range(batch)]
    source, target = (numpy.array([random.choice(own[n]) for n in sequence], "int32") for _ in range(2))
    mask = (random.uniform(size=(num_frames, batch)) < 0.8).astype("uint8")
    inputs = {
        "scores": numpy.where(mask[..., None], random.normal(size=(num_frames, batch, classes)), numpy.nan),
        "weight": random.normal(size=len(sequence)),
        "start": numpy.where(random.uniform(size=batch * states) < 0.6, random.normal(size=batch * states), NEVER),
        "end": numpy.where(random.uniform(size=batch * states) < 0.6, random.normal(size=batch * states), NEVER),
    }
    inputs = {name: value.astype(dtype) for name, value in inputs.items()}
    label = random.randint(0, classes, size=len(sequence)).astype("int32")
    inputs |= {"source": source, "target": target, "label": label, "sequence": sequence}
    return {**inputs, "sequence_of_state": sequence_of_state, "mask": mask}


def automaton(inputs, n):
    """:return: arguments of `all_paths` for a sequence but for the scores"""
    states = list(numpy.flatnonzero(inputs["sequence_of_state"] == n))
    own = numpy.flatnonzero(inputs["sequence"] == n)
    edges = [(states.index(inputs["source"][e]), states.index(inputs["target"][e]), inputs["label"][e]) for e in own]
    start, end = ([x if x > NEVER / 2 else -numpy.inf for x in inputs[key][states]] for key in ("start", "end"))
    return edges, inputs["weight"][own], start, end


def frames(inputs, n):
    return inputs["scores"][inputs["mask"][:, n] != 0, n].astype(float)


def run(name, inputs, *, level=None, threads=1):
    return call_kernel(library(level).kernels[f"automaton_{name}"], inputs, threads=threads)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_sums(level, dtype, sizes, seed):
    inputs = random_case(sizes, dtype, seed)
    results = run("posteriors", inputs, level=level)
    for n, total in enumerate(results["total"]):
        scores, rest = frames(inputs, n), automaton(inputs, n)
        expected = reference.all_paths(scores, *rest)
        assert total == pytest.approx(expected, rel=TOLERANCE[dtype], abs=TOLERANCE[dtype])
        occupied = results["occupied"][:, n]
        assert not occupied[inputs["mask"][:, n] == 0].any()
        if total == -numpy.inf:
            assert not occupied.any()
            continue
        occupied = occupied[inputs["mask"][:, n] != 0]
        direction = numpy.random.RandomState(1).normal(size=scores.shape)
        derivative = numpy.imag(reference.all_paths(scores + 1e-30j * direction, *rest)) / 1e-30
        assert (occupied * direction).sum() == pytest.approx(derivative, rel=0, abs=TOLERANCE[dtype] * 10)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_maxima(level, dtype, sizes):
    inputs = random_case(sizes, dtype)
    results = run("best_paths", inputs, level=level)
    for n, total in enumerate(results["total"]):
        scores, (edges, weights, start, end) = frames(inputs, n), automaton(inputs, n)
        expected = reference.all_paths(scores, edges, weights, start, end, combine=reference.largest)
        assert total == pytest.approx(expected, rel=TOLERANCE[dtype], abs=TOLERANCE[dtype])
        assert not results["labels"][inputs["mask"][:, n] == 0, n].any()
        labels = results["labels"][inputs["mask"][:, n] != 0, n]
        if total == -numpy.inf:
            assert not labels.any()
            continue
        only = numpy.full(scores.shape, -numpy.inf)
        only[numpy.arange(len(labels)), labels] = scores[numpy.arange(len(labels)), labels]
        of_labels = reference.all_paths(only, edges, weights, start, end, combine=reference.largest)
        assert of_labels == pytest.approx(expected, abs=1e-4)


def test_some_cases_have_no_path_and_some_have():
    totals = numpy.concatenate([run("posteriors", random_case(sizes, "float64"))["total"] for sizes in SIZES])
    assert 2 <= numpy.isinf(totals).sum() <= len(totals) - 6


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("name", ["posteriors", "best_paths"])
def test_threads_change_no_bit(threads, name):
    inputs = random_case((9, 7, 11, 6, 30), "float32")
    one, many = (run(name, inputs, threads=num) for num in (1, threads))
    for key, value in one.items():
        numpy.testing.assert_array_equal(value, many[key], err_msg=key)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("source", 24, "an edge begins or ends in a state that there is not"),
        ("target", -1, "an edge begins or ends in a state that there is not"),
        ("label", 5, "the label of an edge is not one of the classes"),
        ("sequence", 4, "an edge is of a sequence that there is not"),
        ("sequence_of_state", -1, "a state is of a sequence that there is not"),
    ],
)
def test_wrong_numbers(name, value, message):
    inputs = random_case((6, 4, 5, 4, 9), "float32")
    inputs[name][3] = value
    with pytest.raises(UserError, match=rf"^automaton_posteriors: {message}\.$"):
        run("posteriors", inputs)


def test_edges_between_sequences():
    inputs = random_case((6, 4, 5, 4, 9), "float32")
    inputs["sequence"][0] = (inputs["sequence"][0] + 1) % 4
    with pytest.raises(
        UserError, match=r"^automaton_best_paths: an edge begins or ends in a state of another sequence\.$"
    ):
        run("best_paths", inputs)


def test_wrong_shapes():
    inputs = random_case((6, 4, 5, 4, 9), "float32")
    with pytest.raises(
        UserError, match=r"^automaton_posteriors: end has the shape \(15,\), but \[S\] is expected, with "
    ):
        run("posteriors", {**inputs, "end": inputs["end"][1:]})


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_no_memory_is_used_beyond_arrays(sizes, tmp_path):
    for name in ("automaton_posteriors", "automaton_best_paths"):
        run_sanitized(name, library().kernels[name].signature, random_case(sizes, "float32"), tmp_path, threads=2)
