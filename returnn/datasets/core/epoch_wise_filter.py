"""`EpochWiseFilter`: the first epochs see only the short sequences of a corpus, as a curriculum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy

from returnn.datasets.core.seq_order import GetSeqLen, SeqOrder
from returnn.util.errors import ConfigError, check_known

EpochWiseFilterOption: TypeAlias = "Mapping[tuple[int, int | None], Mapping[str, Any]] | EpochWiseFilter | None"

_OPTIONS = ("max_mean_len", "use_new_filter", "subdirs", "debug_msg_prefix")


@dataclass(frozen=True)
class FilterRule:
    """What holds in a range of epochs."""

    first_epoch: int
    last_epoch: int | None  # None: all further ones
    max_mean_len: float | None  # of what is kept, the shortest sequences
    keeps_order: bool  # False: what is kept is sorted by length
    subdirs: list[str] | None  # only these parts of the corpus


class EpochWiseFilter:
    """
    The option `epoch_wise_filter`, e.g. `{(1, 5): {"max_mean_len": 200}, (6, 10): {"max_mean_len": 500}}`.

    Its epochs are those of the training, as the log numbers them: with `partition_epoch`, parts of the data, and not
    passes over all of it. Where several ranges have an epoch, the first one counts, in sorted order.
    """

    def __init__(
        self,
        epochs_opts: Mapping[tuple[int, int | None], Mapping[str, Any]],
        debug_msg_prefix: str = "EpochWiseFilter",
    ) -> None:
        """
        :param epochs_opts: (first epoch, last epoch or None) -> `max_mean_len`: leave out the longest sequences, until
            the mean is not larger; `use_new_filter`: keep the order of the epoch, otherwise it is sorted by length;
            `subdirs`: only these parts of the corpus, where it has such
        :param debug_msg_prefix: of messages, the data set
        """
        self.epochs_opts = epochs_opts
        self.debug_msg_prefix = debug_msg_prefix
        rules = [_parse_rule(epochs, rule, debug_msg_prefix) for epochs, rule in epochs_opts.items()]
        self.rules = sorted(rules, key=lambda rule: (rule.first_epoch, rule.last_epoch or math.inf))

    def rule(self, epoch: int) -> FilterRule | None:
        """
        :param epoch: of the training, from 1
        :return: None: nothing is left out
        """
        for rule in self.rules:
            if rule.first_epoch <= epoch and (rule.last_epoch is None or epoch <= rule.last_epoch):
                return rule
        return None

    def filter(self, epoch: int | None, seq_order: SeqOrder, get_seq_len: GetSeqLen) -> SeqOrder:
        """
        :param epoch: of the training, from 1
        :param seq_order: corpus indices
        :param get_seq_len: by corpus index
        :return: what is left
        """
        rule = self.rule(epoch or 1)
        return seq_order if rule is None else filter_by_mean_len(seq_order, get_seq_len, rule)

    @classmethod
    def filter_epoch(
        cls, opts: Mapping[str, Any], seq_order: SeqOrder, get_seq_len: GetSeqLen, debug_msg_prefix: str
    ) -> SeqOrder:
        """
        :param opts: of one range of epochs
        :param seq_order: corpus indices
        :param get_seq_len: by corpus index
        :param debug_msg_prefix: of messages, the data set
        :return: what is left
        """
        return cls({(1, None): opts}, debug_msg_prefix).filter(1, seq_order, get_seq_len)


def filter_by_mean_len(order: SeqOrder, get_seq_len: GetSeqLen, rule: FilterRule) -> SeqOrder:
    """
    :param order: corpus indices
    :param get_seq_len: by corpus index
    :return: without the longest ones, at least one
    """
    if rule.max_mean_len is None or not len(order):
        return order
    indices = numpy.asarray(order, dtype="int64")
    lens = numpy.array([get_seq_len(int(i)) for i in indices])
    by_len = numpy.argsort(lens, kind="stable")
    means = numpy.cumsum(lens[by_len]) / numpy.arange(1, len(lens) + 1)
    kept = by_len[: max(int(numpy.searchsorted(means, rule.max_mean_len, side="right")), 1)]
    return indices[numpy.sort(kept) if rule.keeps_order else kept]


def _parse_rule(epochs: Any, rule: Mapping[str, Any], where: str) -> FilterRule:
    option = f"{where}: option 'epoch_wise_filter'"
    is_pair = isinstance(epochs, tuple) and len(epochs) == 2
    if not (is_pair and isinstance(epochs[0], int) and (epochs[1] is None or isinstance(epochs[1], int))):
        raise ConfigError(f"{option}: {epochs!r} is no pair of first and last epoch.")
    for name in rule:
        check_known("option", name, _OPTIONS, where=option)
    return FilterRule(
        first_epoch=epochs[0],
        last_epoch=epochs[1],
        max_mean_len=rule.get("max_mean_len"),
        keeps_order=bool(rule.get("use_new_filter", False)),
        subdirs=rule.get("subdirs"),
    )
