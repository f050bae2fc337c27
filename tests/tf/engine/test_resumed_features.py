"""Each feature of a training that keeps something from step to step: a kill inside of an epoch changes nothing."""

import random

import numpy
import pytest
import tensorflow as tf

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset_seq import DatasetSeq
from tests.tf.engine.resuming import check_killed_training_ends_as_undisturbed_one

TRAIN = {"class": "Task12AXDataset", "num_seqs": 20}
DEV = {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}
OUTPUT = {"class": "softmax", "from": "hidden", "loss": "ce", "target": "classes"}
FIXED = {"class": "Task12AXDataset", "num_seqs": 40, "fixed_random_seed": 1}  # so that epochs can be parts


def network(output=None, **options):
    """:return: with these options of the hidden layer and of the output layer"""
    hidden = {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data", **options}
    return {"network": {"hidden": hidden, "output": {**OUTPUT, **(output or {})}}}


def random_of_tensorflow(source, **_kwargs):
    x = source(0)
    noise = tf.random.normal(tf.shape(x), seed=3) + tf.random.uniform(tf.shape(x))
    return tf.nn.dropout(x, 0.3) + 0.1 * noise


def random_of_numpy(source, **_kwargs):
    x = source(0)
    noise = tf.numpy_function(
        lambda x: (numpy.random.normal(size=x.shape) + random.random()).astype("float32"), [x], tf.float32
    )
    noise.set_shape(x.shape)
    return x + 0.1 * noise


def own_counter(source, **_kwargs):
    """A variable of a config: it makes the input larger with each step."""
    counter = tf.Variable(0.0, trainable=False, name="own_counter")
    return source(0) * (1 + 0.1 * counter.assign_add(1.0))


class Noise(CachedDataset2):
    """Draws from the global random states, as code of users does."""

    def __init__(self):
        super().__init__(name="train")
        self.num_outputs = {"data": (9, 2), "classes": (2, 1)}

    def init_seq_order(self, epoch=None, seq_list=None, seq_order=None):
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self._num_seqs = 20
        return True

    def _collect_single_seq(self, seq_idx):
        num_frames = random.randint(3, 7)
        data = numpy.random.normal(size=(num_frames, 9)).astype("float32")
        classes = numpy.random.randint(2, size=num_frames).astype("int32")
        return DatasetSeq(seq_idx, data, targets={"classes": classes}, seq_tag=f"noise-{seq_idx}")


def noisy(seq, *, rng, **_kwargs):
    data = seq.data["data"]
    data.raw_tensor = data.raw_tensor + rng.normal(size=data.raw_tensor.shape).astype("float32")
    return seq


def other_network(epoch, **_kwargs):
    return network(n_out=2 + epoch, dropout=0.2)["network"]


def meta(**order):
    datasets = {name: {"class": "Task12AXDataset", "num_seqs": 40, "fixed_random_seed": i}
                for i, name in enumerate(["one", "other"], 1)}  # fmt: skip
    datasets["one"].update(order)
    return {
        "class": "MetaDataset",
        "datasets": datasets,
        "data_map": {"data": ("one", "data"), "classes": ("one", "classes"), "more": ("other", "data")},
        "seq_order_control_dataset": "one",
    }


COMBINED = {
    "class": "CombinedDataset",
    "datasets": {"one": TRAIN, "other": {**TRAIN, "seq_ordering": "random"}},
    "data_map": {(name, key): key for name in ("one", "other") for key in ("data", "classes")},
    "partition_epoch": 2,
    "seq_ordering": "random",
}
KEPT = {
    "class": "rec", "unit": "lstm", "n_out": 3, "from": "data", "initial_state": "keep_over_epoch",
}  # fmt: skip
LOOP = {
    "class": "rec",
    "from": "data",
    "optimize_move_layers_out": False,
    "unit": {
        "noise": {"class": "eval", "eval": random_of_tensorflow, "from": "data:source"},
        "output": {"class": "linear", "from": ["noise", "prev:output"], "n_out": 4, "dropout": 0.3},
    },
}
NEWBOB = {
    "learning_rate_control": "newbob",
    "newbob_relative_error_threshold": -10.0,
    "learning_rate": 0.1,
    "learning_rate_file": None,
    "dev": DEV,
    "num_epochs": 3,
}

FEATURES = {
    "dropout": {**network(dropout=0.3), "dev": DEV},
    "noise on parameters and gradients": {
        **network(param_variational_noise=0.1, L2=0.01), "gradient_noise": 0.1, "gradient_clip_global_norm": 0.5,
    },
    "accumulated gradients": {"accum_grad_multiple_step": 3, "optimizer": {"class": "adam"}},
    "optimizer that is reset": {"optimizer": {"class": "nadam"}, "reset_updater_vars_mod_step": 3},
    "averaged parameters": {"optimizer": {"class": "sgd", "use_ema": True, "ema_overwrite_frequency": 3}},
    "newbob without a file": NEWBOB,
    "learning rate of the step": {"dynamic_learning_rate": {"interval": 4, "decay": 0.5}},
    "pretraining": {"pretrain": "default", "num_epochs": 3, "network": {
        "first": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data"},
        "hidden": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "first", "dropout": 0.2},
        "output": OUTPUT,
    }},
    "network of the epoch": {"get_network": other_network, "network": None},
    "running means": network(output={"from": "norm"}) | {"network": {
        **network(output={"from": "norm"})["network"], "norm": {"class": "batch_norm", "from": "hidden"},
    }},
    "states that are kept": {"network": {"hidden": KEPT, "output": OUTPUT}, "train": {**TRAIN, "num_seqs": 24}},
    "random values of tf.random": {"network": {
        "noise": {"class": "eval", "eval": random_of_tensorflow, "from": "data"},
        **network()["network"], "loop": LOOP, "output": {**OUTPUT, "from": ["hidden", "loop"]},
    }},
    "random values of numpy": {"network": {
        "noise": {"class": "eval", "eval": random_of_numpy, "from": "data"}, "output": {**OUTPUT, "from": "noise"},
    }},
    "own variables": {"network": {
        "more": {"class": "eval", "eval": own_counter, "from": "data"}, "output": {**OUTPUT, "from": "more"},
    }, "num_epochs": 1, "kill_after": (3,)},
    "sampled losses": network(output={
        "class": "linear", "activation": None, "loss": "sampling_loss",
        "loss_opts": {"num_sampled": 1, "use_full_softmax": False},
    }),
    "several scores": network(output={"loss_scale": 0.5}, loss="mse", target="data", n_out=9)
    | {"calculate_exp_loss": True, "dev": DEV},
    "chunks": {"train": {**TRAIN, "chunking": "5:3", "chunking_variance": 0.3}, "max_seqs": 8},
    "shuffled batches": {"shuffle_batches": True, "seq_drop": 0.1},
    "sorted parts of the data": {"train": {**FIXED, "seq_ordering": "laplace:.10", "partition_epoch": 2}},
    "data set of several": {"train": meta(seq_ordering="random", partition_epoch=2)},
    "data sets after each other": {"train": COMBINED},
    "data of processes": {"train": {"class": "MultiProcDataset", "dataset": TRAIN, "num_workers": 1, "buffer_size": 2}},
    "data that is changed": {"train": {"class": "PostprocessingDataset", "dataset": TRAIN, "map_seq": noisy}},
    "data of an own class": {"train": Noise},
    "data of tf.data": {"dataset_pipeline": True},
    "models that are deleted": {
        "cleanup_old_models": {"keep_last_n": 1, "keep_best_n": 1, "keep": []}, "num_epochs": 4, "dev": DEV,
        "learning_rate_file": None,
    },
    "best model again": {"use_last_best_model": True, "learning_rate": 30.0, "dev": DEV, "num_epochs": 3},
    "epochs without a model": {"save_interval": 3, "num_epochs": 3, "kill_after": (9,)},
}  # fmt: skip


@pytest.fixture(autouse=True)
def new_graph():
    yield
    tf.compat.v1.reset_default_graph()


@pytest.mark.parametrize("feature", FEATURES)
def test_killed_training_ends_as_undisturbed_one(feature, tmp_path):
    options = dict(FEATURES[feature])
    default = (random.Random(feature).choice([3, 4, 7, 8, 9]),)
    check_killed_training_ends_as_undisturbed_one(tmp_path, options, kill_after=options.pop("kill_after", default))


def test_killed_again_and_again(tmp_path):
    check_killed_training_ends_as_undisturbed_one(
        tmp_path,
        {**network(dropout=0.3), "dev": DEV, "save_interval_steps": 1},
        kill_after=(1, 3, 1, 1, 2),
        starts=[(1, 2), (1, 5), (2, 1), (2, 2), (2, 4)],
    )
