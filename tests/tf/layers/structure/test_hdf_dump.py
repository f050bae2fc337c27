"""What `HDFDumpLayer` writes, `HDFDataset` reads."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.datasets.hdf import HDFDataset
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, construct

BATCH = {**batch_of(padding={"float32": 0.0, "int32": 0}), "seq_tag": ["first", "second", "third"]}
TWO_FRAMES = {"class": "slice_nd", "start": 0, "size": 2, "from": "data"}
SHORTER = {"class": "slice", "axis": "T", "slice_end": -1, "from": "data"}
PAIRS = {"class": "dot", "red1": "F", "red2": "F", "var1": "T", "var2": "T", "from": ["data", "shorter"]}
LAYERS = {"two_frames": TWO_FRAMES, "shorter": SHORTER, "pairs": PAIRS}


def net_with_dump(filename, **options):
    dump = {"class": "hdf_dump", "filename": filename, "from": "data", **options}
    return LayerNet({**LAYERS, "dump": dump}, fetch=("dump",))


def dumped(tmp_path, runs=1, **options):
    """:return: data set of what was written"""
    net = net_with_dump(str(tmp_path / "dumped.hdf"), **options)
    for _ in range(runs):
        net.run(BATCH)
    net.net.set_run_finished()
    return dataset_of(tmp_path / "dumped.hdf")


def dataset_of(path):
    dataset = HDFDataset([str(path)])
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, dataset.num_seqs)
    return dataset


@pytest.mark.parametrize("key", ["data", "ids", "image"])
def test_frames_of_each_sequence_are_written_without_padding(tmp_path, key):
    dataset = dumped(tmp_path, runs=2, **{"from": f"data:{key}"})
    assert [dataset.get_tag(i) for i in range(dataset.num_seqs)] == 2 * ["first", "second", "third"]
    for i in range(6):
        numpy.testing.assert_array_equal(dataset.get_data(i, "data"), BATCH[key][i % 3, : LENGTHS[i % 3]])


@pytest.mark.parametrize("key", ["number", "vec"])
def test_what_a_sequence_has_once_is_one_frame(tmp_path, key):
    dataset = dumped(tmp_path, **{"from": f"data:{key}", "extra": {"more": "data:vec", "label": "data:number"}})
    for i in range(3):
        numpy.testing.assert_array_equal(dataset.get_data(i, "data"), BATCH[key][i][None])
        numpy.testing.assert_array_equal(dataset.get_data(i, "more"), BATCH["vec"][i][None])
        numpy.testing.assert_array_equal(dataset.get_data(i, "label"), BATCH["number"][i][None])
    assert dataset.get_data_dim("more") == 6


def test_time_dim_of_fixed_size(tmp_path):
    dataset = dumped(tmp_path, **{"from": "two_frames"})
    numpy.testing.assert_array_equal(dataset.get_data(0, "data"), BATCH["data"][0, :2])


@pytest.mark.parametrize("key", ["data", "attention"])
def test_two_dims_of_varying_size_become_one_with_the_sizes_beside_it(tmp_path, key):
    options = {"from": "pairs"} if key == "data" else {"from": "data", "extra": {"attention": "pairs"}}
    dataset = dumped(tmp_path, **options)
    for i, length in enumerate(LENGTHS):
        frames = BATCH["data"][i, :length]
        sizes = dataset.get_data(i, "sizes" if key == "data" else "attention_sizes")
        assert sizes.tolist() == [length, length - 1]
        pairs = dataset.get_data(i, key).reshape(sizes)
        numpy.testing.assert_allclose(pairs, frames @ frames[:-1].T, rtol=1e-4, atol=1e-5)


def test_whole_batches(tmp_path):
    dataset = dumped(tmp_path, runs=2, **{"from": "data", "dump_whole_batches": True})
    assert [dataset.get_tag(i) for i in range(dataset.num_seqs)] == ["batch-0", "batch-1"]
    numpy.testing.assert_array_equal(dataset.get_data(0, "data"), BATCH["data"].reshape(-1, 6))
    assert dataset.get_data(0, "sizes").tolist() == [3, 5]


def test_a_file_for_each_run(tmp_path):
    def filename(epoch, dataset_name, **_):
        return str(tmp_path / f"{dataset_name}-{epoch}.hdf")

    net = net_with_dump(filename, dump_per_run=True)
    for epoch, runs in ((1, 1), (2, 3)):
        net.net.set_run_opts(epoch=epoch, dataset_name="dev")
        for _ in range(runs):
            net.run(BATCH)
        net.net.set_run_finished()
    assert [dataset_of(tmp_path / f"dev-{epoch}.hdf").num_seqs for epoch in (1, 2)] == [3, 9]


def test_each_step_is_written_also_if_nothing_needs_the_output(tmp_path):
    net = net_with_dump(str(tmp_path / "dumped.hdf"))
    with net.graph.as_default():
        net.fetches = {"after_step": net.net.get_post_control_dependencies()}
    net.run(BATCH)
    net.net.set_run_finished()
    assert dataset_of(tmp_path / "dumped.hdf").num_seqs == 3


def test_a_run_adds_to_the_file_and_only_if_it_gets_to_its_end(tmp_path):
    net = net_with_dump(str(tmp_path / "dumped.hdf"))
    for is_error in (True, False, True, False):
        net.run(BATCH)
        net.net.set_run_finished(error_occurred=is_error)
    assert dataset_of(tmp_path / "dumped.hdf").num_seqs == 6
    assert [path.name for path in tmp_path.iterdir()] == ["dumped.hdf"]


def test_existing_file(tmp_path):
    for _ in range(2):
        dataset = dumped(tmp_path, extend_existing_file=True)
    assert dataset.num_seqs == 6
    numpy.testing.assert_array_equal(dataset.get_data(4, "data"), BATCH["data"][1, : LENGTHS[1]])
    with pytest.raises(tf.errors.InvalidArgumentError) as info:
        dumped(tmp_path)
    assert "layer 'dump' (class 'hdf_dump'): " in info.value.message
    assert "dumped.hdf exists already. Remove it, or set 'extend_existing_file'." in info.value.message


def test_names_of_labels(tmp_path):
    names = ["a", "b", "c", "d", "e"]
    dataset = dumped(tmp_path, **{"from": "data:ids", "labels": names})
    assert dataset.labels["data"] == names
    assert dataset.get_data_dim("data") == 5


def test_source_without_batch_dim(tmp_path):
    net_dict = {"constant": {"class": "constant", "value": 1.0}, "output": {"class": "hdf_dump", "from": "constant"}}
    net_dict["output"]["filename"] = str(tmp_path / "dumped.hdf")
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct(net_dict)
    assert "has no batch dim, so it cannot be stored sequence by sequence" in str(info.value)


def test_hypotheses_of_a_search(tmp_path):
    unit = {
        "output": {"class": "choice", "beam_size": 2, "target": "ids", "from": "prob", "initial_output": 0},
        "embedding": {"class": "linear", "n_out": 3, "activation": None, "from": "prev:output"},
        "prob": {"class": "softmax", "n_out": 5, "from": ["data:source", "embedding"]},
    }
    net_dict = {
        "loop": {"class": "rec", "from": "data", "target": "ids", "unit": unit},
        "output": {"class": "hdf_dump", "from": "loop", "filename": str(tmp_path / "dumped.hdf")},
    }
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct(net_dict, search_flag=True)
    assert "has all hypotheses of a search" in str(info.value)
    assert "A layer of class 'decide' takes the best one." in str(info.value)
