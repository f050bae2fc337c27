"""Sequences of two corpora that have the same tags are found without all tags in memory, as by tags."""

from __future__ import annotations

import numpy as np
import pytest

from returnn.datasets import init_dataset
from returnn.datasets.core.errors import DataError
from returnn.datasets.hdf import SimpleHDFWriter
from returnn.datasets.meta import same_tags

TAGS = [f"corpus/{'long-' * (i % 3)}{i}" for i in range(23)]


def write(path, tags):
    """:return: name of a file whose sequences have their number in `TAGS` as only frame"""
    writer = SimpleHDFWriter(str(path), dim=len(TAGS), ndim=1)
    for tag in tags:
        number = TAGS.index(tag) if tag in TAGS else 0
        writer.insert_batch(np.array([[number]], "int32"), seq_len=[1], seq_tag=[tag])
    writer.close()
    return str(path)


def meta(audio, text, **options):
    return init_dataset(
        {
            "class": "MetaDataset",
            "datasets": {
                "audio": {"class": "HDFDataset", "files": audio, **options},
                "text": {"class": "HDFDataset", "files": text},
            },
            "data_map": {"data": ("audio", "data"), "classes": ("text", "data")},
        }
    )


ORDERS = {
    "same": lambda tags: tags,
    "backwards": lambda tags: tags[::-1],
    "one exchanged": lambda tags: [tags[1], tags[0], *tags[2:]],
    "with others": lambda tags: ["x", *tags, "y", "z"],
}


@pytest.fixture(params=[3, 1 << 22], ids=["small blocks", "one block"])
def block(request, monkeypatch):
    monkeypatch.setattr(same_tags, "_BLOCK", request.param)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("options", [{}, {"seq_ordering": "random"}, {"partition_epoch": 4}], ids=str)
def test_each_sequence_gets_the_data_with_its_tag(tmp_path, order, options):
    other = ORDERS[order](TAGS)
    audio = [write(tmp_path / "a1.hdf", TAGS[:9]), write(tmp_path / "a2.hdf", TAGS[9:])]
    text = [write(tmp_path / "t1.hdf", other[:4]), write(tmp_path / "t2.hdf", other[4:])]
    dataset = meta(audio, text, **options)
    tags = []
    for epoch in range(1, options.get("partition_epoch", 1) + 1):
        dataset.init_seq_order(epoch)
        for i in range(dataset.num_seqs):
            dataset.load_seqs(i, i + 1)
            tags.append(dataset.get_tag(i))
            assert [dataset.get_data(i, key).tolist() for key in ("data", "classes")] == [[TAGS.index(tags[-1])]] * 2
    assert sorted(tags) == sorted(TAGS)
    assert dataset.seq_list_ordered is None


@pytest.mark.usefixtures("block")
def test_a_tag_that_is_missing(tmp_path):
    dataset = meta([write(tmp_path / "a.hdf", TAGS)], [write(tmp_path / "t.hdf", TAGS[:-1])], partition_epoch=2)
    dataset.init_seq_order(1)  # it is in the other part
    with pytest.raises(DataError, match="is missing") as caught:
        dataset.init_seq_order(2)
    assert TAGS[-1] in str(caught.value)


@pytest.mark.usefixtures("block")
def test_a_tag_that_is_not_there_once(tmp_path):
    text = [TAGS[-1], *TAGS[1:], TAGS[0]]
    dataset = meta([write(tmp_path / "a.hdf", TAGS)], [write(tmp_path / "t.hdf", [*text, TAGS[0]])])
    with pytest.raises(DataError, match="is there 2 times"):
        dataset.init_seq_order(1)
