"""Faults of workers in certain steps: the file "fault" in their folder says which worker, step, and fault."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

_FILE = Path("fault")
_LIMIT_S = 300
_SLOW_S = 3
_num_steps = 0  # of this process, evaluation included


@dataclass(frozen=True)
class Fault:
    """What happens to a worker."""

    rank: int
    step: int  # number of its steps since it started, those of evaluations included, from 1. 0: it loads its config
    kind: str  # name of a signal that it gets; "exception": it raises one; "slow": it sleeps for some seconds
    after_file: str = "my.config"  # when this one is there, of the folder


def plan_faults(folder: Path, *faults: Fault) -> None:
    """
    :param folder: of the training
    :param faults: one after the other. Each comes once, also if the process starts again
    """
    folder.mkdir(exist_ok=True)
    _write(folder / _FILE, [asdict(fault) for fault in faults])


def is_due() -> bool:
    """:return: whether there is a fault to come, in the current folder"""
    return _FILE.exists()


def note_step() -> None:
    """To be called in each step."""
    global _num_steps
    _num_steps += 1
    note_start(step=_num_steps)


def note_start(*, step: int = 0) -> None:
    """To be called by the config."""
    try:
        first, *others = json.loads(_FILE.read_text())
    except FileNotFoundError:
        return
    fault = Fault(**first)
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] != fault.rank or step != fault.step:
        return
    end = time.monotonic() + _LIMIT_S
    while not Path(fault.after_file).exists() and time.monotonic() < end:
        time.sleep(0.01)
    _write(_FILE, others)
    if fault.kind == "exception":
        raise RuntimeError("on purpose")
    if fault.kind == "slow":
        time.sleep(_SLOW_S)
    else:
        os.kill(os.getpid(), signal.Signals[fault.kind])


def _write(file: Path, faults: list) -> None:
    """At once, as the other workers look at it."""
    if faults:
        new = file.with_suffix(".new")
        new.write_text(json.dumps(faults))
        new.replace(file)
    else:
        file.unlink()


def noted(value):
    """:return: the tensor of TensorFlow, as it is; steps that compute it are noted"""
    import tensorflow as tf  # noqa: PLC0415 (not for those who use PyTorch)

    def note(array):
        note_step()
        return array

    result = tf.numpy_function(note, [value], value.dtype)
    result.set_shape(value.shape)
    return result
