"""
Trains under random faults, and says what has come of it.

`python -m tests.soak.soak --minutes 60 --seed 1` trains a small model again and again. Each training has some runs;
each run is disturbed in one way, and the same command again goes on. At the end, each training has to be what an
undisturbed one is, bit for bit. The report counts faults, losses (of a model that was there), hangs (runs or processes
that do not end), differences (in the models or scores), and wrong words (an end that does not say why in a few lines).
"""

import argparse
import contextlib
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
from collections import Counter

import numpy

from tests.patience import PATIENCE_S
from tests.soak.faults import ENDING_FAULTS, FAULTS, Nothing
from tests.soak.fork_server import ForkServer
from tests.soak.training import differences, prepare, result_of, saved_epochs

_RUN_LIMIT_S = PATIENCE_S
_END_LIMIT_S = 60.0
_MAX_LINES_OF_ERROR = 5


class Soak:
    """All trainings. `faults` counts by name, `problems` are (kind, description)."""

    def __init__(self, server, folder, seed):
        self.server = server
        self.folder = pathlib.Path(folder)
        self.rng = numpy.random.RandomState(seed)
        self.faults = Counter()
        self.problems = []
        self.num_trainings = 0
        self.num_runs = 0
        self.expected = None

    def begin(self):
        """Trains without any fault, to know the result."""
        folder = self._new_training()
        run = self._run(folder, Nothing(self.rng), "0")
        assert run.status == 0, run.output
        self.expected = result_of(folder)

    def go_on_until(self, deadline_s):
        """:param deadline_s: as `time.monotonic` has it; the last training is finished"""
        while time.monotonic() < deadline_s:
            self._disturbed_training()

    def _new_training(self):
        self.num_trainings += 1
        folder = self.folder / f"training-{self.num_trainings}"
        prepare(folder)
        return folder

    def _disturbed_training(self):
        folder = self._new_training()
        steps = str(self.rng.choice([0, 0, 3, 7]))  # between two checkpoints inside of an epoch; 0: there are none
        for i in range(self.rng.randint(3, 7)):
            faults = FAULTS if i else ENDING_FAULTS  # before the first run, there is nothing to damage
            fault = faults[self.rng.randint(len(faults))](self.rng)
            self.faults[fault.name] += 1
            if self._run(folder, fault, steps).status == 0:
                break  # the fault did not end it
        run = self._run(folder, Nothing(self.rng), steps)
        if run.status != 0:
            self._note("loss", folder, f"cannot go on:\n{run.output[-1000:]}")
        elif found := differences(result_of(folder), self.expected):
            self._note("difference", folder, ", ".join(found))

    def _note(self, kind, folder, text):
        self.problems.append((kind, f"{folder.name}: {text}"))
        print(f"{kind}: {folder}: {text}", file=sys.stderr, flush=True)

    def _run(self, folder, fault, save_interval_steps):
        """:return: a run that has ended, disturbed by the fault"""
        self.num_runs += 1
        fault.before(folder)
        epochs = saved_epochs(folder)
        run = self.server.start(folder, "train.config", "++save_interval_steps", save_interval_steps)
        fault.during(folder, run)
        status = run.wait(_RUN_LIMIT_S)
        self._end(folder, fault, run)
        fault.undo(folder)
        print(f"{folder.name}: {fault.name}: {status}, {_last_line(run.output)}", flush=True)
        self._check_end(folder, fault, run)
        self._check_start(folder, fault, run, epochs)
        return run

    def _end(self, folder, fault, run):
        if run.status is None:
            self._note("hang", folder, f"{fault.name}: runs on after {_RUN_LIMIT_S:g} s:\n{run.output[-1000:]}")
        else:
            deadline_s = time.monotonic() + _END_LIMIT_S
            while run.processes() and time.monotonic() < deadline_s:
                time.sleep(0.1)
            if left := run.processes():
                self._note("hang", folder, f"{fault.name}: left are {', '.join(map(_command_of, left))}")
        for pid in run.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.wait(_END_LIMIT_S)

    def _check_end(self, folder, fault, run):
        if run.status in (0, *fault.statuses):
            if "Traceback (most" in run.output:
                self._note("wrong words", folder, f"{fault.name}: a traceback in {run.output[-2000:]}")
            return
        if len(run.output.encode()) >= getattr(fault, "output_limit", float("inf")):
            return  # the end could not be written either
        error = run.output[run.output.rfind("\nerror: ") + 1 :]
        is_expected = run.status == 1 and fault.errors and re.search(fault.errors, error)
        if not is_expected or len(error.splitlines()) > _MAX_LINES_OF_ERROR:
            self._note("wrong words", folder, f"{fault.name}: status {run.status}:\n{run.output[-2000:]}")

    def _check_start(self, folder, fault, run, epochs):
        """All that was saved is used, but for what the fault has damaged."""
        started = re.search(r"start training at epoch (\d+)", run.output)
        if started and epochs:
            damaged = 1 if fault.name in ("flipped bit in model", "missing part of model") else 0
            if int(started.group(1)) < epochs[-1] + 1 - damaged:
                self._note("loss", folder, f"{fault.name}: epochs {epochs} were saved, but {started.group(0)}")

    def report(self):
        """:return: for people"""
        kinds = Counter(kind for kind, _ in self.problems)
        faults = ", ".join(f"{name} {number}" for name, number in sorted(self.faults.items()))
        return (
            f"trainings {self.num_trainings}, runs {self.num_runs}, faults {sum(self.faults.values())} ({faults})\n"
            f"losses {kinds['loss']}, hangs {kinds['hang']}, differences {kinds['difference']},"
            f" wrong words {kinds['wrong words']}"
        )


def soak(*, minutes, seed, folder):
    """:return: the soak, when its time is over"""
    with ForkServer() as server:
        result = Soak(server, folder, seed)
        result.begin()
        result.go_on_until(time.monotonic() + 60 * minutes)
    return result


def _command_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().replace(b"\0", b" ").decode(errors="replace")[-150:]
    return str(pid)


def _last_line(output):
    return (output.strip().splitlines() or [""])[-1][:150]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", default=None, help="where the trainings are; default: a new temporary one")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="soak-")
    print(f"seed {args.seed}, folder {folder}", flush=True)
    result = soak(minutes=args.minutes, seed=args.seed, folder=folder)
    print(result.report())
    sys.exit(1 if result.problems else 0)


if __name__ == "__main__":
    main()
