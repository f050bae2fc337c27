import numpy
import pytest

from returnn.native.numpy_call import call_kernel
from returnn.util.errors import UserError
from tests.native.alignment_reference import last_row, next_row
from tests.native.kernels import LEVELS, library
from tests.native.sanitized import run_sanitized

SIZES = [(0, 3, 2), (2, 0, 0), (3, 0, 4), (3, 4, 0), (1, 1, 1), (9, 12, 8)]  # batch, labels of a, labels of b


def random_case(sizes, *, classes=3):
    batch, num_a, num_b = sizes
    random = numpy.random.RandomState(sum(sizes))
    inputs = {
        "a": random.randint(0, classes, size=(batch, num_a)),
        "b": random.randint(0, classes, size=(batch, num_b)),
    }
    inputs |= {"a_lengths": random.randint(0, num_a + 1, size=batch)}
    inputs |= {"b_lengths": random.randint(0, num_b + 1, size=batch)}
    return {name: value.astype("int32") for name, value in inputs.items()}


def pairs(inputs):
    values = zip(*(inputs[name] for name in ("a", "a_lengths", "b", "b_lengths")), strict=True)
    return [(list(a[:t]), list(b[:u])) for a, t, b, u in values]


def with_rows(inputs):
    """:return: inputs of the other kernels, too, with rows that are those of some labels"""
    rows = [last_row(a, list(b)) for (a, _), b in zip(pairs(inputs), inputs["b"], strict=True)]
    row = numpy.array(rows, "int32").reshape(len(rows), inputs["b"].shape[1] + 1)
    ended = numpy.arange(len(rows)) % 3 == 1
    labels = numpy.broadcast_to(numpy.arange(4, dtype="int32"), [len(rows), 4])
    return {**inputs, "row": row, "first": row, "labels": labels, "ended": ended.astype("uint8")}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_distances(level, sizes):
    inputs = random_case(sizes)
    rows = [last_row(a, b) for a, b in pairs(inputs)]
    for optimal_completion, value in ((False, lambda row: row[-1]), (True, min)):
        kernel = library(level).kernels["edit_distance"]
        found = call_kernel(kernel, inputs, optimal_completion=optimal_completion, threads=2)["distance"]
        assert found.tolist() == list(map(value, rows))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("blank", [-1, 2])
def test_tables(sizes, blank):
    inputs = with_rows(random_case(sizes))
    table = call_kernel(library().kernels["edit_distance_table"], inputs, blank=blank, threads=2)["table"]
    for n in range(sizes[0]):
        row = inputs["first"][n].tolist()
        for t in range(sizes[1]):
            label = inputs["a"][n, t]
            if t < inputs["a_lengths"][n] and label != blank:
                row = next_row(row, label, inputs["b"][n])
            assert table[n, t].tolist() == row


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("optimal_completion", [False, True])
def test_successors(sizes, optimal_completion):
    inputs = with_rows(random_case(sizes))
    options = {"blank": 1, "optimal_completion": optimal_completion}
    found = call_kernel(library().kernels["edit_distance_of_successors"], inputs, **options)["distances"]
    for n, length in enumerate(inputs["b_lengths"]):
        row = inputs["row"][n].tolist()
        for label in range(4):
            after = row if inputs["ended"][n] or label == 1 else next_row(row, label, inputs["b"][n])
            assert found[n, label] == (min(after[: length + 1]) if optimal_completion else after[length])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a_lengths": numpy.array([5], "int32")}, "a length is below 0, or above the number of labels"),
        ({"b_lengths": numpy.array([-1], "int32")}, "a length is below 0, or above the number of labels"),
        ({"b": numpy.zeros([2, 3], "int32")}, r"b has the shape \(2, 3\), but \[N, U\] is expected, with N = 1"),
        ({"b": numpy.zeros([1, 3], "int64")}, "b has the type int64, but int32 is expected"),
    ],
)
def test_wrong_inputs(change, message):
    inputs = {**random_case((1, 4, 3)), **change}
    with pytest.raises(UserError, match=f"^edit_distance: {message}"):
        call_kernel(library().kernels["edit_distance"], inputs, optimal_completion=False)


@pytest.mark.slow
def test_no_memory_is_used_beyond_arrays(tmp_path):
    for sizes in SIZES:
        inputs = with_rows(random_case(sizes))
        for name in ("edit_distance", "edit_distance_table", "edit_distance_of_successors"):
            signature = library().kernels[name].signature
            run_sanitized(name, signature, inputs, tmp_path, threads=2, blank=1, optimal_completion=True)
