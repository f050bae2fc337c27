"""
In which order an epoch goes through the sequences (option `seq_ordering`), and which part of them it takes.

All orders are plain functions of the number of sequences, the lengths and a random seed, so any epoch can be started
at any time. An order is a sequence of corpus indices: a `range` or a numpy array, so that it stays small for millions
of sequences.

- `default`: as in the corpus; `reverse`: from its end
- `default_every_n:8`: 0, k, 2k, ..., then 1, k + 1, ..., so that batches of 8 go on where those before ended
- `sorted`, `sorted_reverse`: by length
- `random`; `random:8`: blocks of 8 neighbours stay together
- `random_sample:0.5`: drawn with replacement, half as many as there are
- `laplace:.1000`: shuffled, then sorted by length within bins of 1000, in turns up and down; `laplace:8` has 8 bins.
  Batches have sequences of similar lengths, and differ from epoch to epoch: the usual choice for training. Sequences of
  the same length stay in shuffled order, up and down
- `sort_bin_shuffle:.1000`: sorted by length, and then bins of 1000 are shuffled; `sort_bin_shuffle_x2`: and in them
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from returnn.util.errors import ConfigError, check_known

IntArray: TypeAlias = npt.NDArray[np.signedinteger[Any]]
SeqOrder: TypeAlias = "Sequence[int] | IntArray"
GetSeqLen: TypeAlias = Callable[[int], int]


class OrderIfPossible(str):
    """
    An order that nobody asks for by an option: evaluations are sorted by length, as that is faster.

    So data that cannot be in that order is in its own, and nothing is said about it.
    """

    __slots__ = ()


def is_order_asked_for(seq_ordering: str) -> bool:
    """:return: whether it is an option that has to count"""
    return seq_ordering != "default" and not isinstance(seq_ordering, OrderIfPossible)


class SeqLens:
    """
    The lengths of all sequences of a corpus, for the orders that need them.

    Can stand where a function from corpus index to length is expected, but answers for all at once as well.
    """

    def __init__(self, get_all: Callable[[], IntArray]) -> None:
        """:param get_all: [number of sequences], in frames; called when the first length is needed"""
        self._get_all = get_all
        self._lens: IntArray | None = None

    def all(self) -> IntArray:
        """:return: [number of sequences], in frames"""
        if self._lens is None:
            self._lens = self._get_all()
        return self._lens

    def __call__(self, seq_idx: int) -> int:
        return int(self.all()[seq_idx])

    @classmethod
    def of(cls, get_seq_len: GetSeqLen, num_seqs: int) -> SeqLens:
        """:return: from a function that knows the length of one sequence"""
        if isinstance(get_seq_len, cls):
            return get_seq_len
        return cls(lambda: np.fromiter((get_seq_len(i) for i in range(num_seqs)), np.int64, count=num_seqs))


@dataclass(frozen=True)
class _Request:
    """What an order is made from."""

    num_seqs: int
    seq_lens: SeqLens | None
    seed: int
    argument: str | None
    where: str

    def rng(self) -> np.random.RandomState:
        return np.random.RandomState(self.seed % 2**32)

    def lens(self) -> IntArray:
        if self.seq_lens is None:
            raise ConfigError(
                f"{self.where}: option 'seq_ordering': this order needs the lengths of all sequences beforehand.\n"
                "  They are not known here. Give them by the option 'seq_order_seq_lens_file',\n"
                "  or take an order that needs none: default, reverse, random."
            )
        return self.seq_lens.all()

    def positive_int(self, default: int) -> int:
        if self.argument is None:
            return default
        if not self.argument.isdigit() or int(self.argument) == 0:
            raise _bad_argument(self, "a positive number")
        return int(self.argument)

    def bins(self, order: IntArray) -> list[IntArray]:
        """
        Splits an order: `.N` into bins of about N sequences, but at least 2 bins; `N` into N bins. By default, 2 bins.
        Bin i of n begins at `i * len(order) // n`.
        """
        argument = self.argument if self.argument is not None else "2"
        number = argument.removeprefix(".")
        if not number.isdigit() or int(number) == 0:
            raise _bad_argument(self, "a number of bins, or a dot and a number of sequences per bin (as in '.1000')")
        num_bins = max(len(order) // int(number), 2) if argument.startswith(".") else int(number)
        num_bins = min(num_bins, max(len(order), 1))  # others would be empty
        return np.split(order, [i * len(order) // num_bins for i in range(1, num_bins)])


def _bad_argument(request: _Request, expected: str) -> ConfigError:
    return ConfigError(
        f"{request.where}: option 'seq_ordering': {request.argument!r} after the colon is not {expected}."
    )


def _default(request: _Request) -> SeqOrder:
    return range(request.num_seqs)


def _default_every_n(request: _Request) -> SeqOrder:
    """
    0, k, 2k, ..., then 1, k + 1, ...: batches of n in which each entry goes on where it was in the batch before.

    For a state that is kept over batches. The rest that does not fill n columns is left out.
    """
    n = request.positive_int(default=1)
    return np.arange(request.num_seqs // n * n, dtype=np.int64).reshape(n, -1).T.reshape(-1)


def _reverse(request: _Request) -> SeqOrder:
    return range(request.num_seqs - 1, -1, -1)


def _sorted(request: _Request) -> SeqOrder:
    return np.argsort(request.lens(), kind="stable")


def _sorted_reverse(request: _Request) -> SeqOrder:
    return np.argsort(-request.lens(), kind="stable")


def _random(request: _Request) -> SeqOrder:
    """With a number: blocks of that many neighbours keep together, in their order."""
    block_size = request.positive_int(default=1)
    num_blocks = -(-request.num_seqs // block_size)
    blocks = request.rng().permutation(num_blocks).astype(np.int64, copy=False)
    if block_size == 1:
        return blocks
    order = (blocks[:, None] * block_size + np.arange(block_size)).reshape(-1)
    return order[order < request.num_seqs]


def _random_sample(request: _Request) -> SeqOrder:
    """Draws sequences with replacement; the ratio is the size of the epoch over that of the corpus."""
    try:
        ratio = float(request.argument) if request.argument is not None else 1.0
    except ValueError:
        ratio = 0.0
    if not 0.0 < ratio < float("inf"):
        raise _bad_argument(request, "a positive ratio")
    num_draws = round(request.num_seqs * ratio)
    return request.rng().randint(max(request.num_seqs, 1), size=num_draws, dtype=np.int64)


def _laplace(request: _Request) -> SeqOrder:
    """Shuffled, then sorted by length within each bin, in turns up and down: lengths change slowly all the time."""
    lens = request.lens()
    order = request.rng().permutation(request.num_seqs).astype(np.int64, copy=False)
    for i, part in enumerate(request.bins(order)):  # each is a view
        part[:] = _by_length(part, lens, is_descending=i % 2 == 1)
    return order


def _sort_bin_shuffle(request: _Request) -> SeqOrder:
    """Sorted by length (in random order where equal), cut into bins, and the bins shuffled."""
    rng = request.rng()
    bins = _length_bins(request, rng)
    return np.concatenate([bins[i] for i in rng.permutation(len(bins))])


def _sort_bin_shuffle_x2(request: _Request) -> SeqOrder:
    """As sort_bin_shuffle, and the sequences of each bin are shuffled as well."""
    rng = request.rng()
    bins = _length_bins(request, rng)
    return np.concatenate([rng.permutation(bins[i]) for i in rng.permutation(len(bins))])


def _length_bins(request: _Request, rng: np.random.RandomState) -> list[IntArray]:
    shuffled = rng.permutation(request.num_seqs).astype(np.int64)
    return request.bins(_by_length(shuffled, request.lens()))


def _by_length(order: IntArray, lens: IntArray, *, is_descending: bool = False) -> IntArray:
    """:return: sequences of the same length stay in their order, also if the longest ones come first"""
    keys = lens[order]
    return order[np.argsort(-keys if is_descending else keys, kind="stable")]


_ORDERS: dict[str, Callable[[_Request], SeqOrder]] = {
    "default": _default,
    "default_every_n": _default_every_n,
    "reverse": _reverse,
    "sorted": _sorted,
    "sorted_reverse": _sorted_reverse,
    "random": _random,
    "random_sample": _random_sample,
    "laplace": _laplace,
    "sort_bin_shuffle": _sort_bin_shuffle,
    "sort_bin_shuffle_x2": _sort_bin_shuffle_x2,
}
_WITH_ARGUMENT = {"default_every_n", "random", "random_sample", "laplace", "sort_bin_shuffle", "sort_bin_shuffle_x2"}
_BY_LENGTH = {"sorted", "sorted_reverse", "laplace", "sort_bin_shuffle", "sort_bin_shuffle_x2"}
KNOWN_SEQ_ORDERINGS = tuple(_ORDERS)


def check_seq_ordering(seq_ordering: str, *, where: str) -> None:
    """:raises ConfigError: if there is no such order"""
    name, colon, _ = seq_ordering.partition(":")
    check_known("seq_ordering", name, _ORDERS, where=where)
    if colon and name not in _WITH_ARGUMENT:
        raise ConfigError(
            f"{where}: option 'seq_ordering': {name!r} takes nothing after a colon, got {seq_ordering!r}."
        )


def is_by_length(seq_ordering: str) -> bool:
    """:return: whether neighbours have similar lengths, so that some parts of an epoch take longer than others"""
    return seq_ordering.partition(":")[0] in _BY_LENGTH


def order_seqs(seq_ordering: str, num_seqs: int, *, seq_lens: SeqLens | None, seed: int, where: str) -> SeqOrder:
    """
    :param seq_ordering: e.g. "laplace:.1000"
    :param num_seqs: in the corpus
    :param seq_lens: of the corpus; None: not known
    :param seed: of what is random
    :param where: for errors, the data set
    :return: corpus indices
    :raises ConfigError: if there is no such order, or it needs lengths that are not known
    """
    check_seq_ordering(seq_ordering, where=where)
    if seq_lens is None and isinstance(seq_ordering, OrderIfPossible):
        seq_ordering = "default"
    name, colon, argument = seq_ordering.partition(":")
    if num_seqs == 0:
        return range(0)
    return _ORDERS[name](_Request(num_seqs, seq_lens, seed, argument if colon else None, where))


def part_of(order: SeqOrder, *, num_parts: int, part: int) -> SeqOrder:
    """
    :param order: of the whole
    :param num_parts: into how many parts of nearly equal size to cut it
    :param part: which one, from 0
    :return: that part: neighbours keep together, and the first parts are the larger ones
    """
    size, rest = divmod(len(order), num_parts)
    start = part * size + min(part, rest)
    cut = order[start : start + size + (part < rest)]
    return cut.copy() if num_parts > 1 and isinstance(cut, np.ndarray) else cut  # so that the whole is free


def repeat_order(order: SeqOrder, times: int) -> SeqOrder:
    """:return: the same order, several times after each other"""
    return order if times == 1 else np.tile(np.asarray(order, dtype=np.int64), times)


def is_same_order(a: SeqOrder, b: SeqOrder) -> bool:
    """:return: whether both have the same sequences in the same order"""
    if isinstance(a, range) and isinstance(b, range):
        return a == b
    return len(a) == len(b) and bool(np.array_equal(np.asarray(a), np.asarray(b)))
