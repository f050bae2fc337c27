"""The training that the soak disturbs: its config, its data, and what it ends with."""

import os
import shutil

import numpy

from returnn.datasets.hdf import SimpleHDFWriter
from returnn.engine.learning_rate_file import read_learning_rate_file
from tests.tf.engine.small_config import parameters

NUM_EPOCHS = 5
SECONDS_PER_EPOCH = 0.6  # about
CONFIG = f"""#!rnn.py
import os
import resource
import time
import tensorflow as tf

real_time, real_sleep = time.time, time.sleep

def now():
    return real_time() + (float(open("clock").read() or 0) if os.path.exists("clock") else 0.0)

time.time = now

def count(x):
    real_sleep(0.02)
    if os.path.exists("disk_full"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return x

def watch(source, **_kwargs):
    x = source(0)
    return tf.ensure_shape(tf.numpy_function(count, [x], tf.float32), x.shape)

task = "train"
train = {{"class": "MultiProcDataset", "num_workers": 2, "buffer_size": 3, "dataset": {{
    "class": "tests.soak.data.SlowDataset", "files": ["train.hdf"], "seq_ordering": "random"}}}}
dev = {{"class": "HDFDataset", "files": ["dev.hdf"]}}
extern_data = {{"data": {{"dim": 5}}, "classes": {{"dim": 3, "sparse": True}}}}
network = {{
    "watched": {{"class": "eval", "eval": watch, "from": "data"}},
    "lstm": {{"class": "rec", "unit": "lstm", "n_out": 6, "from": "watched", "dropout": 0.2}},
    "output": {{"class": "softmax", "from": "lstm", "loss": "ce", "target": "classes"}},
}}
batch_size = 1000
max_seqs = 5
optimizer = {{"class": "adam"}}
gradient_noise = 0.01
accum_grad_multiple_step = 2
learning_rate = 0.01
num_epochs = {NUM_EPOCHS}
model = "model/net"
learning_rate_control = "newbob"
learning_rate_file = "learning_rates"
data_wait_limit_s = 30
"""


def write_data(filename, *, num_seqs, seed):
    """Writes an HDF file with random data."""
    rng = numpy.random.RandomState(seed)
    with SimpleHDFWriter(str(filename), dim=5, ndim=2, extra_type={"classes": (3, 1, "int32")}) as writer:
        for i in range(num_seqs):
            num_frames = int(rng.randint(3, 15))
            data = rng.normal(size=(1, num_frames, 5)).astype("float32")
            classes = rng.randint(0, 3, size=(num_frames,)).astype("int32")
            writer.insert_batch(data, [num_frames], [f"seq-{i}"], extra={"classes": [classes]})


def prepare(folder):
    """:param folder: gets all that a training needs"""
    os.makedirs(folder / "model")
    write_data(folder / "train.hdf", num_seqs=50, seed=1)
    write_data(folder / "dev.hdf", num_seqs=10, seed=2)
    write_data(folder / "other.hdf", num_seqs=50, seed=3)
    shutil.copy2(folder / "train.hdf", folder / "train.hdf.kept")
    (folder / "train.config").write_text(CONFIG)


def result_of(folder):
    """:return: parameters of the last model by name, and learning rates and scores by epoch"""
    data = read_learning_rate_file(folder / "learning_rates")
    scores = {epoch: (entry.learning_rate, entry.error) for epoch, entry in data.items()}
    return parameters(folder / "model" / f"net.{NUM_EPOCHS:03d}"), scores


def differences(one, other):
    """:return: names of what is not the same, bit for bit"""
    (values, scores), (other_values, other_scores) = one, other
    names = [
        name for name in {**values, **other_values} if not numpy.array_equal(values.get(name), other_values.get(name))
    ]
    return [*names, *(["scores"] if scores != other_scores else [])]


def saved_epochs(folder):
    """:return: epochs that have a model, in order"""
    names = [path.name for path in (folder / "model").glob("net.???.index")]
    return sorted(int(name.split(".")[1]) for name in names)
