"""Feed dicts out of threads and out of `tf.data`."""

import numpy
import pytest
import tensorflow as tf

from returnn.engine.data import load_dataset
from returnn.log import log
from returnn.tf.data_pipeline import DatasetDataProvider, FeedDictDataProvider
from returnn.tf.engine import Engine, tasks
from returnn.util.errors import ConfigError, UserError
from tests.tf.engine.small_config import assert_same, config, parameters

DEV = {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}
FRAMES = {"output": {"class": "softmax", "from": "data", "loss": "ce", "target": "classes"}}


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])
    yield
    tf.compat.v1.reset_default_graph()


@pytest.fixture
def engine(tmp_path):
    engine = Engine(config(tmp_path, network=FRAMES, dev=DEV, max_seqs=2, batch_size=10_000))
    engine.init_train_from_config()
    yield engine
    engine.finalize()


def feeds(provider, session):
    result = []
    provider.start_threads(session)
    while provider.have_more_data(session):
        feed, meta = provider.get_feed_dict()
        result.append(({key.op.name: value for key, value in feed.items()}, meta["seq_tag"]))
    provider.stop_threads()
    assert provider.have_reached_end()
    return result


def feed_dict_provider(engine, dataset, **options):
    dataset.init_seq_order(epoch=1)
    batches = engine.batches_of(dataset, train=False)
    return FeedDictDataProvider(
        extern_data=engine.network.extern_data, data_keys=["data", "classes"], dataset=dataset, batches=batches,
        **options,
    )  # fmt: skip


def test_both_ways_give_the_same(engine):
    dataset = engine.dev_data
    by_thread = feeds(feed_dict_provider(engine, dataset), engine.tf_session)
    provider = DatasetDataProvider(engine.network.extern_data, engine.config, {"dev": dataset})
    dataset.init_seq_order(epoch=1)
    for _ in range(2):
        by_tf_data = feeds(provider, engine.tf_session)
        assert len(by_tf_data) == len(by_thread) == 3
        for (feed, tags), (expected, expected_tags) in zip(by_tf_data, by_thread, strict=True):
            assert tags == expected_tags
            assert_same(feed, expected)
    assert provider.get_dataset_name() == "dev"


def test_a_part_of_the_batches(engine):
    every = feeds(feed_dict_provider(engine, engine.dev_data), engine.tf_session)
    some = feeds(feed_dict_provider(engine, engine.dev_data, batch_slice=slice(0, None, 2)), engine.tf_session)
    assert [tags for _, tags in some] == [every[0][1], every[2][1]]
    provider = feed_dict_provider(engine, engine.dev_data, batch_slice=slice(1, None))
    assert provider.get_feed_dict(single_threaded=True)[1]["seq_tag"] == every[1][1]
    assert provider.get_complete_frac() > 0
    assert provider.get_dataset_name() == "dev"


def test_training_is_the_same_with_a_pipeline(tmp_path):
    options = {"network": FRAMES, "dev": DEV, "num_epochs": 2, "max_seqs": 5, "batch_size": 10_000}
    tasks.train(config(tmp_path / "one", **options))
    tasks.train(config(tmp_path / "two", dataset_pipeline=True, **options))
    assert_same(parameters(tmp_path / "one" / "net.002"), parameters(tmp_path / "two" / "net.002"))


def test_own_pipeline(tmp_path):
    seen = []

    def pipeline(context):
        seen.append(context.get_dataset_name())
        dataset = context.get_returnn_dataset().filter(lambda seq: seq["data_seq_lens"] > 10)
        return context.padded_batch_dataset(dataset, drop_remainder=True)

    data = {
        "class": "StaticDataset", "output_dim": {"data": (9, 2), "classes": (2, 1)},
        "data": [{"data": numpy.ones((n, 9), "float32"), "classes": numpy.ones(n, "int32")} for n in (8, 11, 12, 13)],
    }  # fmt: skip
    tasks.train(config(tmp_path, network=FRAMES, dataset_pipeline=pipeline, max_seqs=2, train=data))
    assert seen == ["train"]
    assert parameters(tmp_path / "net.001")["global_step"] == 1


def test_errors_of_the_data_set_and_of_the_pipeline(tmp_path):
    bad = [{"data": numpy.full((3, 9), numpy.nan, "float32"), "classes": numpy.ones(3, "int32")}]
    data = {"class": "StaticDataset", "output_dim": {"data": (9, 2), "classes": (2, 1)}, "data": bad}
    with pytest.raises(UserError, match="seq-0"):
        tasks.train(config(tmp_path, network=FRAMES, dataset_pipeline=True, train=data))
    for pipeline, message in (
        (3, "option 'dataset_pipeline': got 3, but expected True, False or a function."),
        (lambda context: None, "option 'dataset_pipeline': the function returned None."),
        (
            lambda context: context.padded_batch_dataset(context.get_returnn_dataset()).map(lambda d: {"x": d["data"]}),
            "option 'dataset_pipeline': batches have no 'data', only ['x'].",
        ),
    ):
        with pytest.raises(ConfigError) as info:
            tasks.train(config(tmp_path / "2", network=FRAMES, dataset_pipeline=pipeline))
        assert message in str(info.value)


def test_data_set_without_the_engine(engine):
    dataset = load_dataset(engine.config, "dev")
    provider = feed_dict_provider(engine, dataset, capacity=1)
    provider.start_threads(engine.tf_session)
    assert provider.have_more_data(engine.tf_session)
    provider.stop_threads()  # in the middle
