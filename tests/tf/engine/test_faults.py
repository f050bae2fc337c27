"""
Faults that are done to real trainings, one after the other, each by a few lines.

A training with a fault ends with an error of at most five lines, or goes on as if nothing had happened; no process is
left. If it had begun, the same command ends with the same parameters as without the fault, once that is mended.
"""

import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy
import pytest

from returnn.datasets.hdf import SimpleHDFWriter
from tests.patience import wait_until
from tests.soak.training import write_data
from tests.tf.engine.small_config import assert_same, parameters

KILLED = -signal.SIGKILL
CONFIG = """#!rnn.py
import os
import resource
import time
import tensorflow as tf
from returnn.datasets.hdf import HDFDataset

def wait(x):
    time.sleep(float(os.environ.get("SECONDS_OF_STEP", "0")))
    return x

def watch(source, **_kwargs):
    return tf.ensure_shape(tf.numpy_function(wait, [source(0)], tf.float32), source(0).shape)

task = "train"
train = {"class": "HDFDataset", "files": ["train.hdf"], "seq_ordering": "random"}
dev = {"class": "HDFDataset", "files": ["dev.hdf"]}
extern_data = {"data": {"dim": 5}, "classes": {"dim": 3, "sparse": True}}
network = {
    "watched": {"class": "eval", "eval": watch, "from": "data"},
    "hidden": {"class": "linear", "activation": "tanh", "n_out": 4, "from": "watched", "dropout": 0.2},
    "output": {"class": "softmax", "from": "hidden", "loss": "ce", "target": "classes"},
}
batch_size = 1000
max_seqs = 5
optimizer = {"class": "adam"}
learning_rate = 0.01
num_epochs = 2
model = "model/net"
learning_rate_control = "newbob"
learning_rate_file = "learning_rates"
data_wait_limit_s = 300
"""
WORKERS = 'train = {"class": "MultiProcDataset", "num_workers": 2, "buffer_size": 2, "dataset": train}\n'
STARTED = "train epoch 1, step 1,"
SHORT_LIMIT = "data_wait_limit_s = 2\n"


def in_dataset(code):
    """:return: text of a config whose data set does this before each sequence"""
    return f"""
class Own(HDFDataset):
    def _read_seq(self, i):
        {code}
        return super()._read_seq(i)

train = {{**train, "class": Own}}
"""


def nothing(_):
    pass


@dataclass(frozen=True)
class Fault:
    """What is done, and what is to come of it."""

    name: str
    before: Callable[[Path], object] = nothing  # on the files
    text: str = ""  # more of the config
    during: Callable[[object], object] = nothing  # on the run, once it has printed `moment`
    moment: str = STARTED
    status: int = 1
    other_statuses: tuple[int, ...] = ()
    says: str = ""  # of the error; for status 0, of the output
    mend: Callable[[Path], object] | None = None  # None: nothing had begun, or cannot be mended
    is_same_data: bool = True
    after_an_epoch: bool = False  # whether the training was killed in its second epoch before

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def replace_by_fifo(name):
    def act(folder):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / name)
        os.mkfifo(folder / name)

    return act


def garbage(name, *, age_s=0.0):
    def act(folder):
        (folder / name).write_bytes(numpy.random.RandomState(1).bytes(99))
        then = time.time() - age_s
        os.utime(folder / name, (then, then))

    return act


def remove(*names):
    def act(folder):
        for name in names:
            os.unlink(folder / name)

    return act


def make_folder(name):
    return lambda folder: os.mkdir(folder / name)


def remove_folder(name):
    return lambda folder: os.rmdir(folder / name)


def new_data(name, seqs, *, dim=5):
    """:param seqs: tag, features, classes"""

    def act(folder):
        os.unlink(folder / name)
        with SimpleHDFWriter(str(folder / name), dim=dim, ndim=2, extra_type={"classes": (3, 1, "int32")}) as writer:
            for tag, features, classes in seqs:
                right = numpy.zeros(len(classes), "int32")
                writer.insert_batch(features[None], [len(features)], [tag], extra={"classes": [right]})
        with h5py.File(folder / name, "r+") as file:  # the writer takes no wrong labels
            file["targets/data/classes"][...] = numpy.concatenate([classes for _, _, classes in seqs])

    return act


def old_data(folder):
    for name in ("train", "dev"):
        shutil.copy2(folder / f"{name}.kept", folder / f"{name}.hdf")


def kill_workers(number, *, which=slice(None)):
    def act(run):
        for pid in run.workers()[which]:
            os.kill(pid, number)

    return act


def send(*numbers, pause_s=0.01):
    def act(run):
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(run.pid, number)
            time.sleep(pause_s)

    return act


def stop_workers_and_kill(run):
    wait_until(run.workers, lambda: run.output)
    kill_workers(signal.SIGSTOP)(run)
    send(signal.SIGKILL)(run)


ONES = numpy.ones((4, 5), "float32")
NAN = numpy.where(numpy.arange(20).reshape(4, 5) == 7, numpy.nan, ONES).astype("float32")
LIMITED = r"took \d+ s, in .*, line \d+\.\n  That is the limit"
DIED = r"MultiProcDataset 'train', process \d: its process has died with exit code "
FAULTS = [
    Fault("data is a pipe", replace_by_fifo("train.hdf"), SHORT_LIMIT, says=LIMITED),
    Fault("data is a folder", lambda f: (remove("train.hdf")(f), os.mkdir(f / "train.hdf")), says="Is a directory"),
    Fault("data is empty", lambda f: (f / "train.hdf").write_bytes(b""), says="is no HDF file"),
    Fault(
        "data is a link to itself",
        lambda f: (remove("train.hdf")(f), os.symlink("train.hdf", f / "train.hdf")),
        says="symbolic links",
    ),
    Fault(
        "data has NaN",
        new_data("train.hdf", [("a", ONES, [0] * 4), ("b", NAN, [0] * 4)]),
        says="sequence 'b': nan in 1 of 20 numbers, first at frame 1",
    ),
    Fault(
        "label is out of range",
        new_data("train.hdf", [("a", ONES, [0, 1, 7, 1])]),
        says="label 7 at frame 2 is out of range",
    ),
    Fault("sequence is empty", new_data("train.hdf", [("a", ONES[:0], [])]), says="has no frames"),
    Fault("too few labels", new_data("train.hdf", [("a", ONES, [0, 1])]), says="needs as many labels"),
    Fault(
        "dev data has another dim",
        new_data("dev.hdf", [("a", numpy.ones((4, 7), "float32"), [0] * 4)], dim=7),
        says="has 7 features",
    ),
    Fault(
        "odd tags",
        new_data("train.hdf", [(tag, ONES, [0] * 4) for tag in ("a b", "x\ny", "'\"", "ä\u202e", "x" * 2000, "{0}%s")]),
        status=0,
        is_same_data=False,
    ),
    Fault(
        "dev data is truncated",
        during=lambda run: os.truncate(run.folder / "dev.hdf", 3000),
        says=r"has changed while it was read: it had [\d,]+ bytes, and has 3,000",
        mend=old_data,
    ),
    Fault("training data is deleted", during=lambda run: remove("train.hdf")(run.folder), status=0),
    Fault("lock is garbage", garbage("model/net.lock"), says="is trained already, by somebody"),
    Fault("lock is of a time to come", garbage("model/net.lock", age_s=-1e8), status=0),
    Fault("lock is a pipe", replace_by_fifo("model/net.lock"), says="is trained already, by somebody"),
    Fault("lock is a folder", make_folder("model/net.lock"), says="is trained already, by somebody"),
    Fault("learning rates are a folder", make_folder("learning_rates"), says="cannot be read: Is a directory"),
    Fault("learning rates are a pipe", replace_by_fifo("learning_rates"), SHORT_LIMIT, says=LIMITED),
    Fault("learning rate is absurd", text="learning_rate = -1.0\n", says="expected a number of at least 0"),
    Fault("log is a pipe", replace_by_fifo("log"), SHORT_LIMIT + "log = ['log']\n", says=LIMITED),
    Fault(
        "model folder is a file",
        lambda f: (os.rmdir(f / "model"), (f / "model").write_text("")),
        says="no file can be written to the folder 'model'",
    ),
    Fault(
        "model folder is deleted",
        during=lambda run: shutil.rmtree(run.folder / "model"),
        says="the lock 'model/net.lock' is gone",
        mend=nothing,
    ),
    Fault(
        "model is a folder",
        lambda f: (remove("model/net.001.index")(f), os.mkdir(f / "model/net.001.index")),
        says="cannot be read: Is a directory",
        after_an_epoch=True,
    ),
    Fault(
        "models are dangling links",
        lambda f: [os.symlink("nowhere", f / f"model/net.007.{ending}") for ending in ("index", "data-00000-of-00001")],
        status=0,
        after_an_epoch=True,
    ),
    Fault(
        "model of a later epoch is garbage",
        lambda f: [garbage(f"model/net.999.{ending}")(f) for ending in ("index", "data-00000-of-00001")],
        status=0,
        after_an_epoch=True,
    ),
    Fault(
        "models have odd names",
        lambda f: [garbage(f"model/net.{name}.index")(f) for name in ("abc", "-1", "0x1", "")],
        status=0,
        after_an_epoch=True,
    ),
    Fault(
        "identity of the data is garbage",
        garbage("model/net.data.json"),
        status=0,
        says="it is not known which data was there before",
        after_an_epoch=True,
    ),
    Fault(
        "identity of the data is a pipe",
        replace_by_fifo("model/net.data.json"),
        SHORT_LIMIT,
        says=LIMITED,
        mend=remove("model/net.data.json"),
        after_an_epoch=True,
    ),
    Fault("config raises", text="1 / 0\n", says="ZeroDivisionError: division by zero"),
    Fault("config is not finished", text="network = {\n", says="train.config"),
    Fault(
        "worker crashes",
        text=WORKERS,
        during=kill_workers(signal.SIGSEGV, which=slice(1)),
        says=DIED + r"-11 \(SIGSEGV\)",
        mend=nothing,
    ),
    Fault(
        "worker is ended",
        text=WORKERS,
        during=kill_workers(signal.SIGTERM, which=slice(1)),
        says=DIED + r"-15 \(SIGTERM\)",
        mend=nothing,
    ),
    Fault(
        "all workers are killed",
        text=WORKERS,
        during=kill_workers(signal.SIGKILL),
        says=DIED + r"-9 \(SIGKILL\)",
        mend=nothing,
    ),
    Fault("workers hear Ctrl-C", text=WORKERS, during=kill_workers(signal.SIGINT), status=0),
    Fault(
        "workers are stopped at once",
        text=WORKERS,
        moment="task train",
        during=stop_workers_and_kill,
        status=KILLED,
        mend=nothing,
    ),
    Fault(
        "workers in workers are stopped",
        text=WORKERS + WORKERS,
        during=stop_workers_and_kill,
        status=KILLED,
        mend=nothing,
    ),
    Fault(
        "worker that hangs loses its training",
        text=in_dataset("time.sleep(1000 if i > 12 else 0)") + WORKERS,
        during=send(signal.SIGKILL),
        moment="start training",
        status=KILLED,
        mend=nothing,
    ),
    Fault("data set leaves its worker", text=in_dataset("os._exit(0)") + WORKERS, says=DIED + "0"),
    Fault(
        "data set crashes its worker",
        text=in_dataset("os.kill(os.getpid(), 11)") + WORKERS,
        says=DIED + r"-11 \(SIGSEGV\)",
    ),
    Fault("data set leaves the process", text=in_dataset("raise SystemExit(0)"), says="Own 'train': SystemExit: 0"),
    Fault("data set recurses", text=in_dataset("self._read_seq(i)"), says="RecursionError: maximum recursion depth"),
    Fault("data set gives nothing", text=in_dataset("return None"), says="Own 'train': AttributeError"),
    Fault(
        "many signals",
        during=send(*[signal.SIGTERM, signal.SIGHUP, signal.SIGINT] * 7),
        status=143,
        other_statuses=(129, 130, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT),  # of those that come at once
        mend=nothing,
    ),
    Fault(
        "signals without a meaning",
        during=send(*[signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG, signal.SIGPIPE] * 50, pause_s=0.002),
        status=0,
    ),
    Fault("sleeps and goes on", during=send(signal.SIGSTOP, signal.SIGCONT, pause_s=3.0), status=0),
    Fault("time of the processor is over", during=send(signal.SIGXCPU), status=-signal.SIGXCPU, mend=nothing),
    Fault("output is closed", text="os.close(1)\n", status=0, says="the output cannot be written: Bad file descriptor"),
    Fault("all outputs are closed", text="os.close(1)\nos.close(2)\n", status=0),
]


def start(server, folder, text, *, is_slow=False):
    (folder / "train.config").write_text(text)
    run = server.start(folder, "train.config", SECONDS_OF_STEP="0.15" if is_slow else "0")
    run.folder = folder
    return run


def prepare(folder):
    (folder / "model").mkdir()
    for name, num_seqs in (("train", 20), ("dev", 5)):
        write_data(folder / f"{name}.kept", num_seqs=num_seqs, seed=num_seqs)
    old_data(folder)


def run_into(fault, server, folder):
    """:return: a training with the fault, which has ended"""
    prepare(folder)
    if fault.after_an_epoch:
        run = start(server, folder, CONFIG, is_slow=True)
        assert run.wait_for("train epoch 2, step 1,"), run.output
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    fault.before(folder)
    run = start(server, folder, CONFIG + fault.text, is_slow=fault.during is not nothing)
    if fault.during is not nothing:
        assert run.wait_for(fault.moment), run.output
        fault.during(run)
    assert run.wait() is not None, run.output
    return run


@pytest.fixture(scope="module")
def expected(fork_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    prepare(folder)
    run = start(fork_server, folder, CONFIG)
    assert run.wait() == 0, run.output
    return parameters(folder / "model" / "net.002")


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_training_and_fault(fault, fork_server, expected, tmp_path):
    run = run_into(fault, fork_server, tmp_path)
    assert run.status in (fault.status, *fault.other_statuses), run.output
    assert "Traceback" not in run.output
    wait_until(lambda: not run.processes(), lambda: f"{len(run.processes())} processes are left")
    told = run.output
    if fault.status == 1:
        told = told[("\n" + told).rindex("\nerror: ") :]
        assert len(told.splitlines()) <= 5, run.output
    assert re.search(fault.says, told), run.output
    if fault.mend is not None:
        fault.mend(tmp_path)
        run = start(fork_server, tmp_path, CONFIG)
        assert run.wait() == 0, run.output
    if run.status == 0 and fault.is_same_data:
        assert_same(parameters(tmp_path / "model" / "net.002"), expected)
