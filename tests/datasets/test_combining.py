"""Data sets that are made of other data sets."""

from __future__ import annotations

import gzip
import itertools
import pickle
from collections import Counter

import h5py
import numpy as np
import pytest

from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import init_dataset
from returnn.datasets.meta import EpochWiseFilter, VariableDataset
from returnn.datasets.static import StaticDataset
from returnn.engine.report.data_sample import load_sample
from returnn.util.errors import ConfigError

from .cases import CASES, hdf, static, static_seqs, write_streams
from .corpus_checks import assert_equal_seqs, seqs_of_epoch


def tags_of(dataset, epoch=1):
    dataset.init_seq_order(epoch)
    return [tag for tag, _ in seqs_of_epoch(dataset)]


def meta(tmp_path, **options):
    return {
        "class": "MetaDataset",
        "datasets": {"hdf": hdf(tmp_path), "static": static(seq_ordering="random", partition_epoch=2)},
        "data_map": {"data": ("static", "data"), "classes": ("hdf", "classes")},
        "seq_order_control_dataset": "static",
        **options,
    }


def test_shape_of_the_data_of_a_key(tmp_path):
    dataset = init_dataset(meta(tmp_path))
    assert dataset.get_data_shape(data_key="data") == dataset.datasets["static"].get_data_shape("data")
    assert dataset.get_data_shape(data_key="classes") == []


def parallel(tmp_path, texts, **options):
    """:return: dataset of two texts that are joined line by line"""
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["a", "b", "</s>"], "seq_postfix": [2]}
    datasets = {}
    for name, text in zip(("en", "de"), texts, strict=True):
        (tmp_path / name).write_text(text)
        datasets[name] = {"class": "LmDataset", "corpus_file": str(tmp_path / name), "orth_vocab": vocab, **options}
    data_map = {"data": ("en", "data"), "classes": ("de", "data")}
    return init_dataset({"class": "MetaDataset", "datasets": datasets, "data_map": data_map})


def test_texts_that_are_joined_have_the_same_lines(tmp_path, capsys):
    parallel(tmp_path, ["a\n\nb\n", "b\n \nb\n"])  # the same lines are empty
    texts = ["a\nb\n\nb\n", "a\n\na\nb\n"]
    with pytest.raises(DataError) as info:
        parallel(tmp_path, texts)
    assert str(info.value) == (
        "MetaDataset: sequences of 'en' and 'de' are joined by their numbers, but number 1 is line 2 of 'en' and line "
        "3 of 'de'.\n  Empty lines are left out. 'skip_empty_lines': False keeps them, in both."
    )
    dataset = parallel(tmp_path, texts, skip_empty_lines=False)
    dataset.init_seq_order(epoch=1)
    assert [list(features["classes"]) for _, features in seqs_of_epoch(dataset)] == [[0, 2], [2], [0, 2], [1, 2]]
    assert "is a line missing?" not in capsys.readouterr().err


def test_texts_of_other_numbers_of_lines_are_a_warning(tmp_path, capsys):
    parallel(tmp_path, ["a\n", "a\nb\n"])
    said = capsys.readouterr()
    assert "'en' has 1 line of text, and 'de' has 2. The first ones of both are joined: is a line missing?" in (
        said.out + said.err
    )


def test_meta_takes_each_key_from_its_dataset_and_the_order_of_one(tmp_path):
    dataset = init_dataset(meta(tmp_path))
    control = init_dataset(static(seq_ordering="random", partition_epoch=2))
    by_tag = {str(seq["seq_tag"]): seq for seq in static_seqs()}
    for epoch in (1, 2, 3):
        control.init_seq_order(epoch)
        expected = [tag for tag, _ in seqs_of_epoch(control)]
        dataset.init_seq_order(epoch)
        seqs = seqs_of_epoch(dataset)
        assert [tag for tag, _ in seqs] == expected
        for tag, data in seqs:
            np.testing.assert_array_equal(data["data"], by_tag[tag]["data"])
            np.testing.assert_array_equal(data["classes"], by_tag[tag]["classes"])


@pytest.mark.parametrize("name", ["MetaDataset", "CombinedDataset"])
def test_windows_of_what_other_datasets_have(name, tmp_path):
    options = {**CASES[name](tmp_path), "window": 3}
    plain, windows = (init_dataset({**options, "window": window}) for window in (1, 3))
    dim = plain.get_data_dim("data")
    assert (windows.get_data_dim("data"), windows.get_data_shape("data")) == (3 * dim, [3 * dim])
    assert windows.get_data_dim("classes") == plain.get_data_dim("classes")
    for dataset in (plain, windows):
        dataset.init_seq_order(1)
    for (tag, frames), (other, joined) in zip(seqs_of_epoch(plain), seqs_of_epoch(windows), strict=True):
        zero = np.zeros((1, dim), "float32")
        padded = np.concatenate([zero, frames["data"], zero]) if len(frames["data"]) else np.zeros((2, dim), "float32")
        expected = np.concatenate([padded[:-2], padded[1:-1], padded[2:]], axis=1)
        assert tag == other
        np.testing.assert_array_equal(joined["data"], expected)
        np.testing.assert_array_equal(joined["classes"], frames["classes"])


@pytest.mark.parametrize("make", [meta, lambda tmp_path, **options: {**CASES["CombinedDataset"](tmp_path), **options}])
def test_data_becomes_of_the_dtype_that_is_given(make, tmp_path, capsys):
    plain = init_dataset(make(tmp_path))
    dataset = init_dataset(make(tmp_path, data_dtypes={"data": "float64", "classes": "uint8"}))
    for any_dataset in (plain, dataset):
        any_dataset.init_seq_order(1)
    assert (dataset.get_data_dtype("data"), dataset.get_data_dtype("classes")) == ("float64", "uint8")
    for (_, before), (_, data) in zip(seqs_of_epoch(plain), seqs_of_epoch(dataset), strict=True):
        for key in before:
            assert data[key].dtype == dataset.get_data_dtype(key)
            np.testing.assert_array_equal(data[key], before[key])
    init_dataset(make(tmp_path, data_dtypes={"clases": "int32"}))
    assert "option 'data_dtypes': there is no data key 'clases'. Did you mean 'classes'" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="option 'data_dtypes': 'classes': 'int23' is no dtype of numpy"):
        init_dataset(make(tmp_path, data_dtypes={"classes": "int23"}))
    lossy = init_dataset(make(tmp_path, data_dtypes={"data": "int32"}))
    lossy.init_seq_order(1)
    with pytest.raises(DataError, match=r"data key 'data' of sequence 'tag-\d+': has numbers that are not int32"):
        seqs_of_epoch(lossy)


@pytest.mark.parametrize("make", [meta, lambda tmp_path, **options: {**CASES["CombinedDataset"](tmp_path), **options}])
def test_dims_that_are_given_are_those_of_the_data(make, tmp_path, capsys):
    for dims in ({"data": (3, 2), "classes": (5, 1)}, {"data": 3, "classes": 5}, {"data": {"dim": 3}}, {"classes": 5}):
        dataset = init_dataset(make(tmp_path, data_dims=dims))
        assert (dataset.get_data_dim("data"), dataset.get_data_dim("classes")) == (3, 5)
    for dims in ({"data": (4, 2)}, {"classes": (5, 2)}, {"classes": {"dim": 6, "sparse": True}}):
        with pytest.raises(ConfigError, match=f"'{next(iter(dims))}' has "):
            init_dataset(make(tmp_path, data_dims=dims))
    init_dataset(make(tmp_path, data_dims={"clases": (5, 1)}))
    assert "option 'data_dims': there is no data key 'clases'. Did you mean 'classes'" in capsys.readouterr().out


def test_windows_are_of_features(tmp_path):
    data_map = {"data": ("hdf", "classes")}
    dataset = init_dataset(meta(tmp_path, window=3, data_map=data_map, seq_order_control_dataset="hdf"))
    dataset.init_seq_order(1)
    with pytest.raises(ConfigError, match="option 'window': joins the features of frames, but 'data' has the shape"):
        dataset.load_seqs(0, 1)


def test_meta_filter_selects_from_the_order_of_the_control_dataset(tmp_path):
    (tmp_path / "filter.txt").write_text("tag-3\ntag-5\ntag-7\n")
    dataset = init_dataset(meta(tmp_path, seq_list_filter_file=str(tmp_path / "filter.txt")))
    assert sorted(tags_of(dataset, 1) + tags_of(dataset, 2)) == ["tag-3", "tag-5", "tag-7"]


def test_meta_with_other_tags_in_each_dataset(tmp_path):
    dataset = init_dataset({**CASES["MetaDataset, list"](tmp_path), "seq_ordering": "sorted"})
    dummy = init_dataset({"class": "DummyDataset", "input_dim": 2, "output_dim": 3, "num_seqs": 20})
    dummy.init_seq_order(1)
    classes = {tag: data["classes"] for tag, data in seqs_of_epoch(dummy)}
    dataset.init_seq_order(1)
    seqs = seqs_of_epoch(dataset)
    for tag, data in seqs:
        np.testing.assert_array_equal(data["classes"], classes[tag.replace("tag", "seq")])
    assert [tag for tag, _ in seqs] == sorted((t for t, _ in seqs), key=lambda t: (int(t[4:]) * 7 % 3, int(t[4:])))


def test_meta_with_list_and_control_dataset(tmp_path):
    (tmp_path / "seqs.pkl").write_bytes(
        pickle.dumps({"hdf": [f"tag-{i}" for i in range(4)], "static": [f"tag-{i}" for i in range(4)]})
    )
    dataset = init_dataset(meta(tmp_path, seq_list_file=str(tmp_path / "seqs.pkl")))
    assert sorted(tags_of(dataset, 1) + tags_of(dataset, 2)) == [f"tag-{i}" for i in range(4)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"data_map": {"data": ("statc", "data")}},
            "'data_map': 'data': there is no data set 'statc'.\n  Did you mean 'static'",
        ),
        (
            {"data_map": {"data": ("static", "dat")}},
            "data set 'static': there is no data key 'dat'.\n  Did you mean 'data'",
        ),
        ({"seq_order_control_dataset": "hd"}, "option 'seq_order_control_dataset': there is no data set 'hd'."),
        (
            {"partition_epoch": 2},
            "Give it the options 'partition_epoch' and 'repeat_epoch', instead of giving them here.",
        ),
        ({"data_dims": {"data": [40, 2]}}, "option 'data_dims': 'data' has (40, 2), but the data has (3, 2)."),
    ],
)
def test_meta_errors(options, message, tmp_path):
    with pytest.raises(ConfigError) as info:
        init_dataset(meta(tmp_path, **options))
    assert message in str(info.value)
    assert str(info.value).count("\n") < 5


def test_meta_sequence_that_is_missing_in_one_dataset(tmp_path):
    options = meta(tmp_path, name="train")
    options["datasets"]["static"] = static(data=[*static_seqs(), {**static_seqs()[0], "seq_tag": np.array("tag-x")}])
    dataset = init_dataset(options)
    with pytest.raises(DataError) as info:
        dataset.init_seq_order(1)
    assert str(info.value) == (
        "HDFDataset 'train/hdf': sequence 'tag-x': is missing.\n"
        f"  File: {tmp_path}/static.hdf\n"
        "  The first tag here is 'tag-0'. The data sets that are combined need the same sequence tags."
    )


@pytest.mark.parametrize("has_file", [False, True])
def test_meta_in_an_order_by_length_with_others(has_file, tmp_path):
    lengths = {str(seq["seq_tag"]): len(seq["data"]) for seq in static_seqs()}
    options = meta(tmp_path)
    if has_file:
        lengths = {tag: 100 - i for i, tag in enumerate(lengths)}
        options["seq_lens_file"] = str(tmp_path / "lens.txt")
        (tmp_path / "lens.txt").write_text(str(lengths))
    data_map = {("a", "data"): "data", ("b", "data"): "data", ("a", "classes"): "classes"}
    datasets = {"a": options, "b": static(data=static_seqs(1))}
    combined = {"class": "CombinedDataset", "datasets": datasets, "data_map": data_map, "seq_ordering": "sorted"}
    tags = tags_of(init_dataset(combined))
    tags.remove("tag-0")  # of the other one
    assert sorted(tags) == sorted(lengths)
    assert [lengths[tag] for tag in tags if tag != "tag-0"] == sorted(lengths[t] for t in lengths if t != "tag-0")


def test_meta_length_that_is_missing(tmp_path):
    options = {**CASES["MetaDataset, list"](tmp_path), "seq_ordering": "sorted"}
    (tmp_path / "lens.txt").write_text("{'tag-0': 3}")
    with pytest.raises(DataError, match=r"sequence 'tag-1': has no length here\.\n  File: .*lens.txt"):
        init_dataset(options).init_seq_order(1)


def combined(tmp_path, **options):
    return init_dataset({**CASES["CombinedDataset"](tmp_path), **options})


def test_combined_has_empty_data_where_a_dataset_has_none(tmp_path):
    dataset = combined(tmp_path)
    dataset.init_seq_order(1)
    for tag, data in seqs_of_epoch(dataset):
        empty, full = ("words", "classes") if tag.startswith("seq") else ("classes", "words")
        assert len(data[empty]) == 0 < len(data[full])
        assert data[empty].dtype == dataset.get_data_dtype(empty)


def test_combined_interleaves_by_progress(tmp_path):
    tags = tags_of(combined(tmp_path, seq_ordering="interleave"))
    kinds = "".join(tag[0] for tag in tags)
    assert Counter(kinds) == {"t": 11, "s": 4}
    for end in range(1, len(kinds) + 1):
        assert abs(kinds[:end].count("t") / 11 - kinds[:end].count("s") / 4) <= 1 / 4 + 1e-9
    assert [tag for tag in tags if tag[0] == "t"] == [f"tag-{i}" for i in range(11)]


@pytest.mark.parametrize(
    "options", [{"seq_ordering": "random_dataset"}, {"seq_ordering": "interleave", "interleave_gumbel_scale": 0.3}]
)
def test_combined_in_random_turns(options, tmp_path):
    dataset = combined(tmp_path, **options)
    tags = tags_of(dataset)
    assert tags == tags_of(dataset)
    assert sorted(tags) == sorted(tags_of(combined(tmp_path)))
    assert [tag for tag in tags if tag[0] == "s"] == [f"seq-{i}" for i in range(4)]
    assert len({tuple(tag[0] for tag in tags_of(dataset, epoch)) for epoch in range(1, 6)}) > 1


@pytest.mark.parametrize("seq_ordering", ["interleave", "random_dataset"])
def test_combined_in_turns_in_samples_and_parts(seq_ordering, tmp_path):
    random = {**CASES["CombinedDataset"](tmp_path)["datasets"]["hdf"], "seq_ordering": "random"}
    datasets = {**CASES["CombinedDataset"](tmp_path)["datasets"], "hdf": random}
    sampled = combined(tmp_path, datasets=datasets, seq_ordering=seq_ordering, sampling_sizes={"hdf": 10, "dummy": 20})
    tags = tags_of(sampled)
    assert Counter(tag[0] for tag in tags) == {"t": 10, "s": 20}
    assert Counter(tag[0] for tag in tags[:15])["s"] in range(
        6, 15
    )  # they are mixed, two of the one to one of the other
    assert [tag for tag in tags if tag[0] == "s"] == [f"seq-{i}" for i in range(4)] * 5
    in_order = [tag for tag in tags if tag[0] == "t"]
    assert len(set(in_order)) == 10
    assert in_order != sorted(in_order)
    parts = combined(tmp_path, datasets=datasets, seq_ordering=seq_ordering, partition_epoch=3)
    epochs = [tags_of(parts, epoch) for epoch in (1, 2, 3)]
    within = {
        "class": "ConcatDataset",
        "datasets": [CASES["CombinedDataset"](tmp_path) | {"seq_ordering": seq_ordering}],
    }
    assert len(tags_of(init_dataset({**within, "partition_epoch": 2}))) == 8
    all_tags = sorted(tags_of(combined(tmp_path)))
    assert [len(tags) for tags in epochs] == [5, 5, 5]
    assert sorted(itertools.chain.from_iterable(epochs)) == all_tags
    assert epochs != [tags_of(parts, epoch) for epoch in (4, 5, 6)]
    shards = [combined(tmp_path, seq_ordering=seq_ordering, _num_shards=2, _shard_index=i) for i in (0, 1)]
    assert sorted(itertools.chain.from_iterable(map(tags_of, shards))) == all_tags


def test_combined_sampling_of_filtered_sequences_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="option 'unique_seq_tags' is not possible beside 'sampling_sizes'"):
        combined(tmp_path, sampling_sizes=3, unique_seq_tags=True)


@pytest.mark.parametrize("seq_ordering", ["default", "random", "sorted"])
def test_combined_sampling_goes_on_in_the_next_epoch(seq_ordering, tmp_path):
    dataset = combined(tmp_path, sampling_sizes={"hdf": 3, "dummy": 1}, seq_ordering=seq_ordering)
    epochs = [tags_of(dataset, epoch) for epoch in range(1, 12)]
    assert all(Counter(tag[0] for tag in tags) == {"t": 3, "s": 1} for tags in epochs)
    counts = Counter(tag for tags in epochs for tag in tags)
    assert all(counts[f"tag-{i}"] == 3 for i in range(11))
    assert {counts[f"seq-{i}"] for i in range(4)} == {2, 3}


def test_concat_keeps_the_order_of_each_dataset(tmp_path):
    dummy = {"class": "DummyDataset", "input_dim": 3, "output_dim": 5, "num_seqs": 4, "seq_ordering": "reverse"}
    dataset = init_dataset({"class": "ConcatDataset", "datasets": [dummy, hdf(tmp_path, partition_epoch=2)]})
    assert tags_of(dataset, 2) == [f"seq-{i}" for i in (3, 2, 1, 0)] + [f"tag-{i}" for i in range(6, 11)]


def test_concat_of_different_dims_is_an_error(tmp_path):
    dummy = {"class": "DummyDataset", "input_dim": 2, "output_dim": 5, "num_seqs": 4}
    with pytest.raises(ConfigError, match=r"data set 1 .* has .*'data': \(2, 2\).*\n  but the first one has"):
        init_dataset({"class": "ConcatDataset", "datasets": [hdf(tmp_path), dummy]})


def concat_seqs(tmp_path, **options):
    dataset = init_dataset({**CASES["ConcatSeqsDataset"](tmp_path), **options})
    dataset.init_seq_order(1)
    return dict(seqs_of_epoch(dataset))


def test_concatenated_sequences(tmp_path):
    seqs = static_seqs()
    for tag, data in concat_seqs(tmp_path).items():
        parts = [seqs[int(part[4:])] for part in tag.split(";")]
        for key in ("data", "classes"):
            np.testing.assert_array_equal(data[key], np.concatenate([part[key] for part in parts]))


def test_delimiter_of_concatenated_sequences(tmp_path):
    plain = concat_seqs(tmp_path)
    other = tmp_path / "other.txt"
    other.write_text((tmp_path / "list.txt").read_text().replace(";", " + "))
    found = concat_seqs(tmp_path, seq_list_file=str(other), seq_tag_delim=" + ")
    assert [tag.replace(" + ", ";") for tag in found] == list(plain)
    assert_equal_seqs(list(zip(plain, found.values(), strict=True)), list(plain.items()))
    with pytest.raises(ConfigError, match="option 'seq_tag_delim' is empty"):
        concat_seqs(tmp_path, seq_tag_delim="")


@pytest.mark.parametrize(("length", "message"), [
    ({"data": 3, "classes": 1}, "found a dict.\n  File: {file}\n  Write one length, that of one of the data keys"),
    ("much", "found 'much'.\n  File: {file}"),
])  # fmt: skip
def test_concatenated_sequences_of_wrong_lengths(tmp_path, length, message):
    options = CASES["ConcatSeqsDataset"](tmp_path)
    (tmp_path / "part-lens.txt").write_text(repr({"tag-0": length}))
    with pytest.raises(DataError) as info:
        init_dataset(options)
    wanted = "ConcatSeqsDataset: option 'seq_len_file': sequence 'tag-0': expected a length, "
    assert str(info.value).startswith(wanted + message.format(file=tmp_path / "part-lens.txt"))


def test_concatenated_sequences_repeat_and_pad(tmp_path):
    seqs = static_seqs()
    repeat = concat_seqs(tmp_path, repeat_in_between_last_frame_up_to_multiple_of={"data": 4})
    padded = concat_seqs(tmp_path, pad_narrow_data_to_multiple_of_target_len={"data": "classes"})
    for tag in repeat:
        parts = [seqs[int(part[4:])] for part in tag.split(";")]
        lens = [len(part["data"]) for part in parts]
        assert len(repeat[tag]["data"]) == sum(-(-length // 4) * 4 for length in lens[:-1]) + lens[-1]
        multiples = [-(-len(part["data"]) // len(part["classes"])) * len(part["classes"]) for part in parts]
        assert len(padded[tag]["data"]) == sum(multiples)


def test_concatenated_sequences_without_the_ends_in_between(tmp_path):
    seqs = [{**seq, "classes": np.append(seq["classes"], 4).astype("int32")} for seq in static_seqs()]
    dataset = static(data=seqs)
    data = concat_seqs(tmp_path, dataset=dataset, remove_in_between_postfix={"classes": 4})
    assert data["tag-0;tag-1"]["classes"].tolist() == [*seqs[0]["classes"][:-1], *seqs[1]["classes"]]
    with pytest.raises(DataError, match=r"a part ends with \[4\], not with 3"):
        concat_seqs(tmp_path, dataset=dataset, remove_in_between_postfix={"classes": 3})


def test_concatenated_sequences_by_epoch(tmp_path):
    options = CASES["ConcatSeqsDataset"](tmp_path)
    dataset = init_dataset({**options, "epoch_wise_filter": {(1, 2): {"max_mean_len": 6, "use_new_filter": True}}})
    lens = {
        tag: sum(len(static_seqs()[int(part[4:])]["data"]) for part in tag.split(";")) for tag in tags_of(dataset, 3)
    }
    short = tags_of(dataset, 2)
    assert 0 < len(short) < len(lens) == 5
    assert str(load_sample(dataset, {})) == f"the first {len(short)} sequences"  # as later epochs have more
    assert np.mean([lens[tag] for tag in short]) <= 6
    assert max(lens[tag] for tag in short) <= min(length for tag, length in lens.items() if tag not in short)


def test_epoch_wise_filter_options():
    assert list(EpochWiseFilter.filter_epoch({"max_mean_len": 2}, [0, 1, 2], [3, 1, 9].__getitem__, "x")) == [1, 0]
    rules = EpochWiseFilter({(2, None): {"max_mean_len": 3}, (2, 4): {"max_mean_len": 2}, (1, 2): {"max_mean_len": 1}})
    maxima = [rule.max_mean_len if (rule := rules.rule(epoch)) else None for epoch in range(1, 7)]
    assert maxima == [1, 1, 2, 2, 3, 3]
    with pytest.raises(ConfigError, match="there is no option 'max_len'"):
        EpochWiseFilter({(1, 5): {"max_len": 3}})


def test_clusters_from_text_and_xml(tmp_path):
    options = CASES["ClusteringDataset"](tmp_path)
    items = "".join(f"<map-item><key>tag-{i}</key><value>{i % 3}</value></map-item>" for i in range(11))
    with gzip.open(tmp_path / "clusters.xml.gz", "wt") as file:
        file.write(f"<coprus-key-map>{items}</coprus-key-map>")
    first = init_dataset(options)
    second = init_dataset({**options, "cluster_map_file": str(tmp_path / "clusters.xml.gz")})
    for dataset in (first, second):
        dataset.init_seq_order(1)
    assert_equal_seqs(seqs_of_epoch(first), seqs_of_epoch(second))
    data = dict(seqs_of_epoch(first))
    assert data["tag-4"]["cluster_idx"].tolist() == [1] * len(data["tag-4"]["data"])
    single = init_dataset({**options, "single_cluster": True})
    single.init_seq_order(1)
    assert dict(seqs_of_epoch(single))["tag-5"]["cluster_idx"].tolist() == [2]


def test_cluster_errors(tmp_path):
    options = CASES["ClusteringDataset"](tmp_path)
    (tmp_path / "clusters.txt").write_text("tag-0 1\n")
    with pytest.raises(DataError, match=r"sequence 'tag-1': has no cluster here\.\n  File: .*clusters.txt"):
        tags_of(init_dataset(options))
    (tmp_path / "clusters.txt").write_text("tag-0 x\n")
    with pytest.raises(ConfigError, match="expected 'TAG CLUSTER', got 'tag-0 x'"):
        init_dataset(options)
    (tmp_path / "clusters.txt").write_text("".join(f"tag-{i} 7\n" for i in range(11)))
    with pytest.raises(
        DataError, match=r"data key 'cluster_idx' of sequence 'tag-0': label 7 at frame 0 is out of range"
    ):
        tags_of(init_dataset(options))


def test_chunks_are_mixed_and_complete(tmp_path):
    dataset = init_dataset(CASES["ChunkShuffleDataset"](tmp_path))
    dataset.init_seq_order(1)
    chunks = [data["data"] for _, data in seqs_of_epoch(dataset)]
    assert max(map(len, chunks)) <= 4
    frames = np.concatenate([seq["data"] for seq in static_seqs()])
    assert sorted(map(tuple, np.concatenate(chunks))) == sorted(map(tuple, frames))
    assert not np.array_equal(np.concatenate(chunks), frames)


@pytest.mark.parametrize("options", [
    {"batch_gen_max_seqs": 3},
    {"batch_gen_batch_size": 5, "batch_gen_max_seqs": 3},
    {"batch_gen_recurrent_net": False, "batch_gen_batch_size": 4, "batch_gen_max_seqs": 3},
])  # fmt: skip
def test_chunks_that_are_read_together(options, tmp_path):
    chunking = {"chunking": 4} if options.get("batch_gen_recurrent_net", True) else {}
    inner = static(target_list=[], **chunking)
    dataset = init_dataset({**CASES["ChunkShuffleDataset"](tmp_path), "dataset": inner, **options})
    read = []
    load_seqs = dataset.dataset.load_seqs
    dataset.dataset.load_seqs = lambda start, end: (read.append(end - start), load_seqs(start, end))
    dataset.init_seq_order(1)
    seqs = seqs_of_epoch(dataset)
    assert 1 < max(read) <= 3
    frames = np.concatenate([seq["data"] for seq in static_seqs()])
    found = np.concatenate([data["data"] for _, data in seqs])
    assert sorted(map(tuple, found)) == sorted(map(tuple, frames))
    assert max(len(data["data"]) for _, data in seqs) == 4


def test_no_chunks_to_draw_from_are_an_error(tmp_path):
    with pytest.raises(ConfigError, match="option 'chunk_shuffle_cache' has to be a positive number, got 0"):
        init_dataset({**CASES["ChunkShuffleDataset"](tmp_path), "chunk_shuffle_cache": 0})


def test_multi_epoch_is_several_epochs(tmp_path):
    inner = init_dataset(hdf(tmp_path, partition_epoch=3, seq_ordering="random"))
    options = {"class": "MultiEpochDataset", "dataset": hdf(tmp_path, partition_epoch=3, seq_ordering="random")}
    dataset = init_dataset({**options, "multi_epoch": 2})
    for epoch in (1, 2):
        expected = [tag for i in (1, 2) for tag in tags_of(inner, 2 * epoch - 2 + i)]
        assert tags_of(dataset, epoch) == expected


def test_variable_dataset_is_another_one_in_each_epoch():
    options = {"class": "DummyDataset", "input_dim": 3, "output_dim": 5}
    dataset = init_dataset(
        {"class": "VariableDataset", "get_dataset": lambda epoch, **_kwargs: {**options, "num_seqs": epoch}}
    )
    assert [len(tags_of(dataset, epoch)) for epoch in (1, 3, 2)] == [1, 3, 2]


@pytest.mark.parametrize(
    "get_dataset",
    [
        lambda self, epoch: {**static(), "seq_ordering": "random" if isinstance(self, VariableDataset) else "x"},
        lambda *, epoch, **kwargs: {**static(), "seq_ordering": "random" if "self" in kwargs else "x"},
        lambda epoch: {**static(), "seq_ordering": "random"},
    ],
)
def test_function_of_a_variable_dataset_gets_it_where_it_takes_that(get_dataset):
    assert len(tags_of(init_dataset({"class": "VariableDataset", "get_dataset": get_dataset}))) == len(static_seqs())


def test_variable_dataset_keeps_some():
    made = []

    def get_data(epoch):
        made.append(epoch)
        return [{"data": np.full((epoch + 1, 2), epoch, "float32")}]

    class Counted(StaticDataset):
        def __init__(self, epoch, **kwargs):
            super().__init__(data=get_data(epoch), **kwargs)

    def epochs_made(size, epochs):
        made.clear()
        dataset = init_dataset({
            "class": "VariableDataset",
            "get_dataset": lambda epoch, **_kwargs: {"class": Counted, "epoch": epoch % 3},
            "dataset_lru_cache_size": size,
        })  # fmt: skip
        for epoch in epochs:
            dataset.init_seq_order(epoch)
            assert seqs_of_epoch(dataset)[0][1]["data"][0, 0] == epoch % 3
        return made

    assert epochs_made(1, [1, 1, 2, 4, 1]) == [1, 2, 1]
    assert epochs_made(2, [1, 2, 4, 5, 3, 5, 4]) == [1, 2, 0, 1]


def test_variable_dataset_frees_what_it_keeps_no_more():
    freed = []

    class Counted(StaticDataset):
        def __init__(self, number, **kwargs):
            super().__init__(data=static_seqs(2), **kwargs)
            self.number = number

        def finish_epoch(self, *, free_resources=False):
            super().finish_epoch(free_resources=free_resources)
            freed.extend([self.number] if free_resources else [])

    def get_dataset(epoch, **_kwargs):
        return {"class": Counted, "number": epoch}

    dataset = init_dataset({"class": "VariableDataset", "get_dataset": get_dataset, "dataset_lru_cache_size": 2})
    for epoch in (1, 2, 3, 4):
        dataset.init_seq_order(epoch)
        dataset.finish_epoch()
    assert freed == [1, 2]
    dataset.finish_epoch(free_resources=True)
    assert set(freed[2:]) == {3, 4}


def test_variable_dataset_knows_large_arrays_apart():
    def get_dataset(epoch, **_kwargs):
        data = np.zeros((2000, 2), "float32")
        data[1000] = epoch
        return {"class": "StaticDataset", "data": [{"data": data}]}

    dataset = init_dataset({"class": "VariableDataset", "get_dataset": get_dataset, "dataset_lru_cache_size": 3})
    for epoch in (1, 2, 1, 3):
        dataset.init_seq_order(epoch)
        assert seqs_of_epoch(dataset)[0][1]["data"].max() == epoch


def test_variable_dataset_with_the_same_tags_knows_all_of_them():
    options = {"class": "VariableDataset", "get_dataset": lambda epoch, **_kwargs: static(fixed_random_seed=epoch)}
    with pytest.raises(NotImplementedError, match="see the option 'always_same_tags'"):
        init_dataset(options).get_all_tags()
    dataset = init_dataset({**options, "always_same_tags": True})
    for epoch in (1, 2):
        dataset.init_seq_order(epoch)
        assert dataset.get_all_tags() == [f"tag-{i}" for i in range(11)]
        assert dataset.get_total_num_seqs() == 11


def test_variable_dataset_with_other_keys_is_an_error():
    def get_dataset(epoch):
        options = {"class": "DummyDatasetMultipleDataKeys", "output_dim": 3, "num_seqs": 2}
        return {**options, "data_keys": ["data"] if epoch == 1 else ["x"]}

    dataset = init_dataset({"class": "VariableDataset", "get_dataset": get_dataset})
    with pytest.raises(
        ConfigError, match=r"the data set of epoch 2 has the keys \['x'\],\n  those before had \['data'\]"
    ):
        dataset.init_seq_order(2)


def test_streams(tmp_path):
    dataset = init_dataset(CASES["NextGenHDFDataset"](tmp_path))
    dataset.init_seq_order(1)
    data = dict(seqs_of_epoch(dataset))
    assert data["tag-4"]["words"].tolist() == [1]
    # Each frame has its label, and whether a segment ends there.
    assert data["tag-4"]["align"].tolist() == [1, 1, 1, 0, 1, 1]
    assert dataset.num_outputs == {"data": (3, 2), "words": (3, 1), "align": (3, 1)}


def test_triplets(tmp_path):
    dataset = init_dataset({**CASES["SiameseHDFDataset"](tmp_path), "fixed_random_seed": None})
    for epoch in (1, 2):
        dataset.init_seq_order(epoch)
        for _, data in seqs_of_epoch(dataset):
            assert data["words_0"][0] == data["words_1"][0] != data["words_2"][0]
    assert dataset.num_outputs["features_1"] == (3, 2)


@pytest.mark.parametrize(("content", "others"), [
    ("{0: 0.0, 1: 1.0, 2: 0.0}", {0: {1}, 1: {0, 2}, 2: {1}}),
    ('{"0": 1.0, "1": 0.0, "2": 0.0}', {0: {1, 2}, 1: {0}, 2: {0}}),
    ("{1: 0.5,\n 2: 0.5}", {0: {1, 2}, 1: {2}, 2: {1}}),
])  # fmt: skip
def test_class_of_the_other_sequence(content, others, tmp_path):
    path = tmp_path / "probs"
    path.write_text(content)
    dataset = init_dataset({**CASES["SiameseHDFDataset"](tmp_path), "class_distribution": str(path)})
    dataset.init_seq_order(1, seq_order=list(range(11)) * 20)
    found = {}
    for _, data in seqs_of_epoch(dataset):
        found.setdefault(int(data["words_0"][0]), set()).add(int(data["words_2"][0]))
    assert found == others


@pytest.mark.parametrize("content", ["[0.5, 0.5]", "{0: 'much'}", "{0: -1.0}", "{7: 1.0}", "much"])
def test_wrong_probabilities_of_classes_are_named(content, tmp_path):
    path = tmp_path / "probs"
    path.write_text(content)
    with pytest.raises(DataError, match=f"File: {path}"):
        init_dataset({**CASES["SiameseHDFDataset"](tmp_path), "class_distribution": str(path)})


def test_classes_of_triplets_from_another_stream(tmp_path):
    dataset = init_dataset({**CASES["SiameseHDFDataset"](tmp_path), "seq_label_stream": "align"})
    dataset.init_seq_order(1)
    for _, data in seqs_of_epoch(dataset):
        assert data["align_0"][0] == data["align_1"][0] != data["align_2"][0]
    with pytest.raises(ConfigError, match="there is no stream 'word'"):
        init_dataset({**CASES["SiameseHDFDataset"](tmp_path), "seq_label_stream": "word"})


@pytest.mark.parametrize(
    ("options", "damage", "message"),
    [
        ({"input_stream_name": "feature"}, None, "there is no stream 'feature'.\n  Did you mean 'features'"),
        ({}, lambda file: file["streams/words"].attrs.update(parser="spars"), "there is no parser 'spars'"),
        ({}, lambda file: file.pop("seq_names"), "is no HDF file with 'seq_names' and 'streams'"),
        (
            {},
            lambda file: file["streams/words/data"].pop("tag-3"),
            "data key 'words' of sequence 'tag-3': cannot be read",
        ),
    ],
)
def test_stream_errors(options, damage, message, tmp_path):
    filename = write_streams(tmp_path / "streams.hdf")
    if damage:
        with h5py.File(filename, "a") as file:
            damage(file)
    with pytest.raises(ConfigError if options or "parser" in message else DataError) as info:
        tags_of(
            init_dataset(
                {"class": "NextGenHDFDataset", "files": [filename], "input_stream_name": "features", **options}
            )
        )
    assert message in str(info.value)


def test_stream_files_with_the_same_sequence(tmp_path):
    filename = write_streams(tmp_path / "streams.hdf")
    with pytest.raises(DataError, match=r"sequence 'tag-0': is there twice\.\n  File: .*streams.hdf"):
        init_dataset({"class": "NextGenHDFDataset", "files": [filename] * 2, "input_stream_name": "features"})


def test_anything_has_every_tag():
    dataset = init_dataset(CASES["AnythingDataset"](None))
    dataset.init_seq_order(1, seq_list=["x", "y"])
    assert tags_of_current(dataset) == ["x", "y"]
    assert dataset.get_data(1, "data").tolist() == [[0, 0, 0]]


def tags_of_current(dataset):
    return [dataset.get_tag(i) for i in range(dataset.num_seqs)]
