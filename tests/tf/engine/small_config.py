"""A training of seconds, as config file for a process and as `Config`."""

import os
import subprocess
import sys

import numpy
import tensorflow as tf

from returnn.config import Config
from tests.patience import PATIENCE_S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TEXT = """#!rnn.py
import itertools
import os
import resource
import signal
import time
import tensorflow as tf

steps, file_calls = itertools.count(1), itertools.count(1)

def count(x):
    time.sleep(float(os.environ.get("SECONDS_OF_STEP", "0")))
    step = str(next(steps))
    if step == os.environ.get("SIGNAL_AT_STEP"):
        while not os.path.exists(os.environ.get("SIGNAL_AFTER_FILE", ".")):
            time.sleep(0.05)
        os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))
    if step == os.environ.get("DISK_FULL_AT_STEP"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return x

def counted(function):
    def call(*args, **kwargs):
        if str(next(file_calls)) == os.environ.get("KILL_AT_FILE_CALL"):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call

if "KILL_AT_FILE_CALL" in os.environ:
    for name in ("rename", "replace", "fsync", "remove", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))

def watch(source, **_kwargs):
    x = source(0)
    y = tf.numpy_function(count, [x], tf.float32)
    y.set_shape(x.shape)
    return y

task = "train"
train = {"class": "Task12AXDataset", "num_seqs": 40}
dev = {"class": "Task12AXDataset", "num_seqs": 10, "fixed_random_seed": 1}
extern_data = {"data": {"dim": 9, "shape": (None, 9)}, "classes": {"dim": 2, "sparse": True}}
network = {
    "watched": {"class": "eval", "eval": watch, "from": "data"},
    "lstm": {"class": "rec", "unit": "lstm", "n_out": 4, "from": "watched", "dropout": 0.2},
    "loop": {
        "class": "rec", "from": "lstm", "optimize_move_layers_out": False,
        "unit": {"output": {
            "class": "linear", "from": ["data:source", "prev:output"], "n_out": 4, "activation": "tanh", "dropout": 0.3,
        }},
    },
    "output": {
        "class": "softmax", "from": "loop", "loss": "ce", "target": "classes", "param_variational_noise": 0.01,
    },
}
batch_size = 1000
max_seqs = 10
optimizer = {"class": "adam"}
gradient_noise = 0.01
learning_rate = 0.01
num_epochs = 2
model = "model/net"
learning_rate_control = "newbob"
learning_rate_file = "model/learning_rates"
save_interval_steps = int(os.environ.get("SAVE_INTERVAL_STEPS", "0"))
"""


def start_run(server, folder, text=TEXT, **environment):
    """:return: `rnn.py` in the folder, see `fork_server`"""
    (folder / "model").mkdir(exist_ok=True)
    (folder / "train.config").write_text(text)
    return server.start(folder, "train.config", **environment)


def start(server, folder, **environment):
    """:return: exit status and output of `rnn.py` in the folder"""
    run = start_run(server, folder, **environment)
    return run.wait(), run.output


def start_alone(folder, **environment):
    """:return: as `start`, in a process that shares nothing with others"""
    process = start_process(folder, **environment)
    output, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, output


def start_process(folder, text=TEXT, *, preexec_fn=None, **environment):
    """
    :param folder: of the config, and of the models
    :param text: of the config
    :param environment: in addition to that of this process
    :return: `rnn.py` in the folder
    """
    (folder / "model").mkdir(exist_ok=True)
    (folder / "train.config").write_text(text)
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", **environment}
    return subprocess.Popen(
        [sys.executable, os.path.join(ROOT, "rnn.py"), "train.config"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=preexec_fn,
    )


def config(folder, **options):
    """:return: with a smaller network, and more options"""
    base = {
        "train": {"class": "Task12AXDataset", "num_seqs": 20},
        "extern_data": {"data": {"dim": 9, "shape": (None, 9)}, "classes": {"dim": 2, "sparse": True}},
        "network": {
            "hidden": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data", "dropout": 0.2},
            "output": {"class": "softmax", "from": "hidden", "loss": "ce", "target": "classes"},
        },
        "batch_size": 1000,
        "max_seqs": 10,
        "learning_rate": 0.01,
        "num_epochs": 1,
        "model": str(folder / "net"),
    }
    return Config({**base, **options})


def parameters(name):
    """:return: values by name, of a checkpoint"""
    reader = tf.train.load_checkpoint(str(name))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


def assert_same(one, other):
    assert set(one) == set(other)
    for key, value in one.items():
        numpy.testing.assert_array_equal(value, other[key], err_msg=key)


def limited(limit):
    """:return: function of a layer, whose memory is not enough for more frames"""

    def check(x):
        if x.shape[0] * x.shape[1] > limit:
            raise MemoryError("not enough")  # TensorFlow makes a ResourceExhaustedError of it
        return x

    def copied(source, **_kwargs):
        y = tf.numpy_function(check, [source(0)], tf.float32)
        y.set_shape(source(0).shape)
        return y

    return copied
