from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.datasets.core.seq_order import KNOWN_SEQ_ORDERINGS, SeqLens, is_same_order, order_seqs, part_of
from returnn.util.errors import ConfigError

lens_lists = st.lists(st.integers(1, 20), min_size=1, max_size=40)
WITHOUT_ALL = {"default_every_n", "random_sample"}


def make_order(seq_ordering, lens, seed=1):
    seq_lens = SeqLens(lambda: np.array(lens))
    return [int(i) for i in order_seqs(seq_ordering, len(lens), seq_lens=seq_lens, seed=seed, where="data set")]


@given(
    lens_lists, st.sampled_from([name for name in KNOWN_SEQ_ORDERINGS if name not in WITHOUT_ALL]), st.integers(0, 9)
)
def test_orders_have_each_sequence_once(lens, seq_ordering, seed):
    order = make_order(seq_ordering, lens, seed)
    assert sorted(order) == list(range(len(lens)))
    assert order == make_order(seq_ordering, lens, seed)


@given(lens_lists)
def test_sorted(lens):
    in_order = [lens[i] for i in make_order("sorted", lens)]
    assert in_order == sorted(lens)
    assert [lens[i] for i in make_order("sorted_reverse", lens)] == in_order[::-1]


@given(lens_lists)
def test_equal_lengths_keep_their_order_when_sorted(lens):
    for name in ("sorted", "sorted_reverse"):
        order = make_order(name, lens)
        assert all(a < b for a, b in itertools.pairwise(order) if lens[a] == lens[b])


def cut(order, num_bins):
    return [order[i * len(order) // num_bins : (i + 1) * len(order) // num_bins] for i in range(num_bins)]


@given(lens_lists, st.sampled_from(["", ":1", ":2", ":3", ":7", ":50", ".1", ".3", ".7", ".50"]), st.integers(0, 9))
def test_laplace_goes_up_and_down(lens, argument, seed):
    """Sequences of the same length stay in the order in which they were shuffled, up and down."""
    number = int(argument[1:] or 2)
    num_bins = max(len(lens) // number, 2) if argument.startswith(".") else number
    expected = []
    for i, part in enumerate(cut(make_order("random", lens, seed), num_bins)):
        part.sort(key=lambda seq_idx: lens[seq_idx], reverse=i % 2 == 1)
        expected += part
    assert make_order("laplace" + argument.replace(".", ":."), lens, seed) == expected


def test_laplace_of_few_lengths():
    order = make_order("laplace:3", [seq_idx % 2 for seq_idx in range(10)])
    shuffled = make_order("random", [1] * 10)
    up, down, last = shuffled[:3], shuffled[3:6], shuffled[6:]
    assert order == [
        *(i for i in up if i % 2 == 0), *(i for i in up if i % 2), *(i for i in down if i % 2),
        *(i for i in down if i % 2 == 0), *(i for i in last if i % 2 == 0), *(i for i in last if i % 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("argument", "sizes"), [("3", [3, 3, 4]), (".3", [3, 3, 4]), (".9", [5, 5]), ("4", [2, 3, 2, 3])]
)
def test_bins_of_sort_bin_shuffle(argument, sizes):
    order = make_order(f"sort_bin_shuffle:{argument}", list(range(10)))
    bins = [list(range(sum(sizes[:i]), sum(sizes[: i + 1]))) for i in range(len(sizes))]
    parts = []
    while order:  # in which order they are is random
        parts.append(order[: len(next(part for part in bins if part[0] == order[0]))])
        order = order[len(parts[-1]) :]
    assert sorted(parts) == bins


def test_laplace_by_size_of_bins():
    lens = list(range(100))
    order = make_order("laplace:.25", lens)
    assert order[:25] == sorted(order[:25])
    assert order[25:50] == sorted(order[25:50], reverse=True)
    assert order != sorted(order)


@given(lens_lists, st.integers(1, 6))
def test_sort_bin_shuffle_keeps_neighbours_of_similar_length(lens, num_bins):
    order = make_order(f"sort_bin_shuffle:{num_bins}", lens)
    by_length = sorted(lens)
    # Whichever bin is the first: as many as the smallest bin has are sorted, and nothing is missing between them.
    first = [lens[i] for i in order[: len(lens) // min(num_bins, len(lens))]]
    assert any(by_length[start : start + len(first)] == first for start in range(len(lens)))


def test_sort_bin_shuffle_x2_shuffles_also_within_the_bins():
    lens = list(range(40))
    order = make_order("sort_bin_shuffle_x2:.10", lens)
    bins = [order[start : start + 10] for start in range(0, 40, 10)]
    assert sorted(sorted(part) for part in bins) == [list(range(start, start + 10)) for start in range(0, 40, 10)]
    assert bins != sorted(bins)
    assert all(part != sorted(part) for part in bins)


@given(st.integers(1, 50), st.integers(1, 7))
def test_random_blocks_keep_together(num_seqs, block_size):
    order = make_order(f"random:{block_size}", [1] * num_seqs)
    blocks = [i // block_size for i in order]
    changes = sum(a != b for a, b in itertools.pairwise(blocks))
    assert changes == len(set(blocks)) - 1
    assert sorted(order) == list(range(num_seqs))


def test_default_every_n_goes_on_in_each_entry_of_a_batch():
    assert make_order("default_every_n:3", [1] * 11) == [0, 3, 6, 1, 4, 7, 2, 5, 8]


@pytest.mark.parametrize(("ratio", "size"), [("", 20), (":0.5", 10), (":3", 60)])
def test_random_sample_draws_by_ratio(ratio, size):
    order = make_order(f"random_sample{ratio}", [1] * 20)
    assert len(order) == size
    assert set(order) <= set(range(20))


@given(st.integers(0, 50), st.integers(1, 8))
def test_parts_are_the_whole_and_of_equal_size(num_seqs, num_parts):
    parts = [part_of(range(num_seqs), num_parts=num_parts, part=i) for i in range(num_parts)]
    assert [i for part in parts for i in part] == list(range(num_seqs))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_default_order_takes_no_memory():
    assert isinstance(order_seqs("default", 10**9, seq_lens=None, seed=1, where="data set"), range)


def test_same_order():
    assert is_same_order(range(3), np.arange(3))
    assert is_same_order(range(10**9), range(10**9))
    assert not is_same_order([0, 1], [1, 0])


@pytest.mark.parametrize(
    ("seq_ordering", "message"),
    [
        ("sortd", "data set: there is no seq_ordering 'sortd'.\n  Did you mean 'sorted'"),
        ("sorted:3", "data set: option 'seq_ordering': 'sorted' takes nothing after a colon, got 'sorted:3'."),
        ("laplace:x", "option 'seq_ordering': 'x' after the colon is not a number of bins"),
        ("random:0", "option 'seq_ordering': '0' after the colon is not a positive number"),
        ("random_sample:-1", "option 'seq_ordering': '-1' after the colon is not a positive ratio"),
    ],
)
def test_errors(seq_ordering, message):
    with pytest.raises(ConfigError) as info:
        make_order(seq_ordering, [1, 2, 3])
    assert message in str(info.value)
    assert str(info.value).count("\n") < 5


def test_order_by_unknown_lengths_is_an_error():
    with pytest.raises(ConfigError, match="this order needs the lengths of all sequences beforehand"):
        order_seqs("sorted", 3, seq_lens=None, seed=1, where="data set")
