"""What the soak does to a training: each fault says how a run may end because of it."""

import contextlib
import os
import re
import shutil
import signal
import time

import numpy

from tests.patience import PATIENCE_S
from tests.soak.training import NUM_EPOCHS, SECONDS_PER_EPOCH, saved_epochs

DAMAGED = r"is damaged"
WORKER = r"MultiProcDataset 'train', process \d, '.*', process \d+|MultiProcDataset 'train', process \d: "


class Fault:
    """
    `before` is called between two runs, `during` while one runs, `undo` when it has ended.

    A run may end with the statuses, besides 0, and with status 1 if the error matches `errors`.
    """

    statuses = ()
    errors = ""

    def __init__(self, rng):
        self.rng = rng

    @property
    def name(self):
        return re.sub(r"(?<!^)([A-Z])", r" \1", type(self).__name__).lower()

    def before(self, folder):
        pass

    def during(self, folder, run):
        pass

    def undo(self, folder):
        pass


def wait_within_training(rng, run, *, limit_s=PATIENCE_S):
    """Waits for a random moment: in the start-up, or after a random step. :return: whether it still runs"""
    if rng.random_sample() < 0.15:
        run.wait(rng.uniform(0.0, 5.0))
    else:
        epoch = rng.randint(1, NUM_EPOCHS + 1)
        if not run.wait_for(rf"(train|dev) epoch [{epoch}-9],", limit_s):
            return False
        run.wait(rng.uniform(0.0, SECONDS_PER_EPOCH))
    return run.status is None


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Nothing(Fault):
    """To see that a run ends."""


class Kill(Fault):
    statuses = (-signal.SIGKILL,)

    def during(self, folder, run):
        if wait_within_training(self.rng, run):
            send(run.pid, signal.SIGKILL)


class Interrupt(Fault):
    statuses = (129, 130, 143, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM)

    def during(self, folder, run):
        if wait_within_training(self.rng, run):
            send(run.pid, self.rng.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))


class StoppedTraining(Fault):
    """Stopped, and goes on."""

    def during(self, folder, run):
        if wait_within_training(self.rng, run):
            send(run.pid, signal.SIGSTOP)
            time.sleep(self.rng.uniform(0.1, 2.0))
            send(run.pid, signal.SIGCONT)


class StoppedAndKilledTraining(Fault):
    """A training and its workers, once these have begun to work."""

    statuses = (-signal.SIGKILL,)

    def during(self, folder, run):
        if run.wait_for(", step 1,") and wait_within_training(self.rng, run):
            for pid in [run.pid, *run.workers()]:
                send(pid, signal.SIGSTOP)
            send(run.pid, signal.SIGKILL)


class _OfWorker(Fault):
    def during(self, folder, run):
        if wait_within_training(self.rng, run) and (workers := run.workers()):
            self.do(int(self.rng.choice(workers)))


class KilledWorker(_OfWorker):
    errors = WORKER + r".*died"

    def do(self, pid):
        send(pid, signal.SIGKILL)


class StoppedWorker(_OfWorker):
    """For good: the limit has to end the run."""

    errors = r"waited for \d+ s: (a batch of )?MultiProcDataset 'train'"

    def do(self, pid):
        send(pid, signal.SIGSTOP)


class PausedWorker(_OfWorker):
    def do(self, pid):
        send(pid, signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.1, 2.0))
        send(pid, signal.SIGCONT)


class _File(Fault):
    """A file that the training looks at."""

    content = ""

    def during(self, folder, run):
        if wait_within_training(self.rng, run):
            (folder / self.file).write_text(self.content)

    def undo(self, folder):
        (folder / self.file).unlink(missing_ok=True)


class FullDisk(_File):
    file = "disk_full"
    errors = r"cannot be written|No space|File too large"
    output_limit = 2000  # bytes: what the run says goes to a file as well, see `training.py`


class SlowData(_File):
    file = "slow"


class ClockJump(_File):
    file = "clock"

    def during(self, folder, run):
        self.content = str(self.rng.choice([-1e6, -3600.0, 3600.0, 1e6]))
        super().during(folder, run)
        with contextlib.suppress(FileNotFoundError):
            for path in (folder / "model").iterdir():
                os.utime(path, (path.stat().st_atime, path.stat().st_mtime + float(self.content)))


class _OfData(Fault):
    def undo(self, folder):
        shutil.copy2(folder / "train.hdf.kept", folder / "new.hdf")
        os.replace(folder / "new.hdf", folder / "train.hdf")


class ChangedData(_OfData):
    """Truncated, written over or replaced while it is read."""

    errors = r"has changed while it was read|is other data than|no HDF file|cannot be read|File ends|died"

    def during(self, folder, run):
        # Before anything is saved, a run may begin with other data, if the file was not open yet.
        if not run.wait_for("start training at epoch") or not wait_within_training(self.rng, run):
            return
        file = folder / "train.hdf"
        how = self.rng.choice(["truncated", "written over", "replaced"])
        if how == "truncated":
            os.truncate(file, os.path.getsize(file) // 2)
        elif how == "written over":
            shutil.copyfile(folder / "other.hdf", file)
        else:
            shutil.copyfile(folder / "other.hdf", folder / "new.hdf")
            os.replace(folder / "new.hdf", file)


class OtherData(_OfData):
    """Between two runs. One that has saved nothing yet may begin with it, so it is left alone."""

    errors = r"is other data than that this training began with"

    def before(self, folder):
        if saved_epochs(folder):
            shutil.copyfile(folder / "other.hdf", folder / "train.hdf")


class FlippedBitInData(_OfData):
    """Also with the time as it was: the disk has done it."""

    errors = r"is other data than|no HDF file|cannot be read|has changed while|is not UTF-8|is missing|add up|has \d"

    def before(self, folder):
        file = folder / "train.hdf"
        before = file.stat()
        content = bytearray(file.read_bytes())
        content[self.rng.randint(len(content))] ^= 1 << self.rng.randint(8)
        file.write_bytes(content)
        if saved_epochs(folder):
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        else:
            self.undo(folder)


class FlippedBitInModel(Fault):
    """In one of the newest files. The training goes on with what is before."""

    def before(self, folder):
        files = sorted((folder / "model").glob("net*"), key=lambda path: path.stat().st_mtime)
        files = [path for path in files if re.search(r"\.(index|data-\S+)$", path.name) and path.stat().st_size]
        if len(saved_epochs(folder)) < 2 or not files:
            return
        file = files[-1 - self.rng.randint(min(2, len(files)))]
        content = bytearray(file.read_bytes())
        for _ in range(self.rng.randint(1, 4)):
            content[self.rng.randint(len(content))] ^= 1 << self.rng.randint(8)
        file.write_bytes(content)


class MissingPartOfModel(Fault):
    def before(self, folder):
        epochs = saved_epochs(folder)
        if len(epochs) >= 2:
            ending = self.rng.choice(["index", "data-00000-of-00001"])
            (folder / "model" / f"net.{epochs[-1]:03d}.{ending}").unlink()


class DamagedLearningRates(Fault):
    errors = r"learning rate file '.*' cannot be read"

    def before(self, folder):
        file = folder / "learning_rates"
        self.content = file.read_bytes() if file.exists() else None
        if self.content is not None:
            file.write_bytes(numpy.random.RandomState(self.rng.randint(1000)).bytes(len(self.content)))

    def undo(self, folder):
        if self.content is not None:
            (folder / "learning_rates").write_bytes(self.content)


ENDING_FAULTS = [
    Kill, Interrupt, StoppedAndKilledTraining, KilledWorker, StoppedWorker, FullDisk, ChangedData
]  # fmt: skip
FAULTS = [
    *ENDING_FAULTS, StoppedTraining, PausedWorker, SlowData, ClockJump, OtherData, FlippedBitInData, FlippedBitInModel,
    MissingPartOfModel, DamagedLearningRates,
]  # fmt: skip
