"""What has to hold for every data set over a corpus."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy


def seqs_of_epoch(dataset, start=0):
    """:return: list of (tag, data by key) from `start` on"""
    seqs = []
    seq_idx = start
    while dataset.is_less_than_num_seqs(seq_idx):
        dataset.load_seqs(seq_idx, seq_idx + 1)
        data = {key: dataset.get_data(seq_idx, key) for key in dataset.get_data_keys()}
        seqs.append((dataset.get_tag(seq_idx), data))
        seq_idx += 1
    return seqs


def assert_equal_seqs(first, second):
    assert [tag for tag, _ in first] == [tag for tag, _ in second]
    for (tag, a), (_, b) in zip(first, second, strict=True):
        assert a.keys() == b.keys()
        for key, value in a.items():
            numpy.testing.assert_array_equal(value, b[key], err_msg=f"{tag}, {key}")
            assert value.dtype == b[key].dtype


def check_corpus_dataset(make, *, is_random=False):
    """
    :param make: function from options to the data set
    :param is_random: the data of the same sequence is another one in each epoch
    """
    dataset = make()
    dataset.init_seq_order(epoch=1)
    plain = seqs_of_epoch(dataset)
    tags = dataset.get_all_tags()
    assert [tag for tag, _ in plain] == tags
    assert dataset.num_seqs == dataset.get_total_num_seqs() == len(tags) > 2
    _check_declared_data(dataset, plain)
    _check_restart(make, plain)
    _check_orders(make, dict(plain), is_random)
    _check_selection(make, tags)
    copy = pickle.loads(pickle.dumps(make()))
    copy.init_seq_order(epoch=1)
    assert_equal_seqs(seqs_of_epoch(copy), plain)


def _check_declared_data(dataset, seqs):
    for _, data in seqs:
        for key, value in data.items():
            dtype = dataset.get_data_dtype(key)
            if dtype == "string":
                assert value.dtype.kind in "US"
                continue
            assert value.dtype == dtype
            assert value.ndim == len(dataset.get_data_shape(key)) + 1
            if dataset.is_data_sparse(key):
                assert not value.size or 0 <= value.min() <= value.max() < dataset.get_data_dim(key)
            elif dataset.get_data_shape(key):
                assert value.shape[-1] == dataset.get_data_dim(key)


def _check_restart(make, plain):
    for start in (1, len(plain) - 1):
        dataset = make()
        dataset.init_seq_order(epoch=1)
        assert_equal_seqs(seqs_of_epoch(dataset, start), plain[start:])
        assert_equal_seqs(seqs_of_epoch(dataset), plain)  # and back


def _check_orders(make, plain, is_random):
    orders = ["random", "reverse", "random:2"]
    orders += ["sorted", "laplace:2"] if make().supports_seq_order_sorting() else []
    for seq_ordering in orders:
        dataset = make(seq_ordering=seq_ordering, partition_epoch=2)
        for full_epoch in (0, 1):
            seqs = []
            for part in (1, 2):
                dataset.init_seq_order(epoch=2 * full_epoch + part)
                seqs += seqs_of_epoch(dataset)
            assert Counter(tag for tag, _ in seqs) == Counter(plain.keys())
            if not is_random:
                assert_equal_seqs(seqs, [(tag, plain[tag]) for tag, _ in seqs])


def _check_selection(make, tags):
    dataset = make()
    dataset.init_seq_order(epoch=1, seq_list=[tags[2], tags[0]])
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == [tags[2], tags[0]]
    dataset.init_seq_order(epoch=1, seq_order=[1, 1])
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == [tags[1], tags[1]]
    assert [dataset.get_corpus_seq_idx(i) for i in range(2)] == [1, 1] == list(dataset.get_current_seq_order())
    assert dataset.get_corpus_seq(2).seq_tag == tags[2]
