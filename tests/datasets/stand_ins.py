"""
In place of other processes and programs, for what has to hold for each data set: threads, which start at once. The
processes themselves have tests of their own, `test_processes`, `test_worker_faults` and `test_sprint`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import sys
import threading
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import numpy

from returnn.datasets.core import worker
from returnn.datasets.sprint import sprint_process
from returnn.datasets.sprint.sprint_pipe import GO, Data, End, Init, send

RASR_FRAMES = [3, 7, 2, 4, 5, 1]  # of each sequence


def install(monkeypatch):
    """Until the end of the test, there are no other processes."""
    monkeypatch.setattr(worker, "WorkerProcess", WorkerThread)
    names = {**vars(sprint_process.subprocess), "Popen": RasrThread}
    monkeypatch.setattr(sprint_process, "subprocess", SimpleNamespace(**names))
    monkeypatch.setitem(sys.modules, "nltk", SimpleNamespace(data=NltkData()))


class WorkerThread:
    """In place of `WorkerProcess`."""

    pid, was_killed = os.getpid(), False

    def __init__(self, options, name, run):
        self.pipe, self._other_end = Pipe()
        options = pickle.loads(pickle.dumps(options))
        self._thread = threading.Thread(target=self._answer, args=(options, name), daemon=True)
        self._thread.start()

    def _answer(self, options, name):
        with self._other_end:
            worker.answer_requests(options, self._other_end, name)

    def end(self):
        self.pipe.close()
        self._thread.join()


class RasrThread:
    """In place of the process of RASR: a corpus of a few sequences."""

    returncode = 0

    def __init__(self, command, *, pass_fds, **_options):
        assert any(re.fullmatch(r"--\*\.pymod-config=c2p_fd:\d+,p2c_fd:\d+,.*", arg) for arg in command)
        self.pid = os.getpid()
        out, given = map(os.dup, pass_fds)
        threading.Thread(target=self._run, args=(os.fdopen(out, "wb"), os.fdopen(given, "rb")), daemon=True).start()

    @staticmethod
    def _run(out, given):
        with contextlib.suppress(BrokenPipeError), given, out:
            send(Init(2, 5, len(RASR_FRAMES)), out)
            if given.read(len(GO)) != GO:
                return
            for i, num_frames in enumerate(RASR_FRAMES):
                features = numpy.full((2, num_frames), float(i))
                classes = numpy.arange(num_frames, dtype="int32") % 5
                send(Data(f"seq{i}", features, {"classes": classes, "orth": f"text {i}"}), out)
            send(End(), out)

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        return self.returncode


class NltkData:
    """In place of `nltk.data`."""

    def __init__(self):
        self.path = []

    def find(self, name):
        return next(str(path) for path in (Path(folder) / name for folder in self.path) if path.exists())


class FakeTable:
    """As much of `datasets.Dataset` as is used."""

    def __init__(self, columns):
        self.columns = columns

    @property
    def column_names(self):
        return list(self.columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key):
        return (
            self.columns[key] if isinstance(key, str) else {name: values[key] for name, values in self.columns.items()}
        )

    def rename_columns(self, names):
        return FakeTable({names.get(name, name): values for name, values in self.columns.items()})

    def cast_column(self, name, feature):
        return FakeTable({**self.columns, name: [feature.cast(value) for value in self.columns[name]]})

    def with_format(self, name):
        assert name == "numpy"
        return self
