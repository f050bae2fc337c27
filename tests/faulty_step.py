"""A fault of a worker in a certain step: the file "fault" in its folder says which worker, step, and fault."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

_FILE = Path("fault")
_LIMIT_S = 300
_SLOW_S = 3
_num_steps = 0  # of this process, evaluation included


def plan_fault(folder: Path, *, rank: int, step: int, fault: signal.Signals | str, after_file: str) -> None:
    """
    :param folder: of the training
    :param rank: of the worker
    :param step: number of its steps so far, those of evaluations included, from 1. 0: when it loads its config
    :param fault: a signal that it gets; "exception": it raises one; "slow": it sleeps for some seconds
    :param after_file: when this one is there, of the folder
    """
    folder.mkdir(exist_ok=True)
    name = fault.name if isinstance(fault, signal.Signals) else fault
    (folder / _FILE).write_text(json.dumps([rank, step, name, after_file]))


def note_step() -> None:
    """To be called in each step. A fault comes once, also if the process starts again."""
    global _num_steps
    _num_steps += 1
    note_start(step=_num_steps)


def note_start(*, step: int = 0) -> None:
    """To be called by the config."""
    if not _FILE.exists():
        return
    rank, fault_step, fault, after_file = json.loads(_FILE.read_text())
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == rank and step == fault_step:
        _FILE.unlink()
        end = time.monotonic() + _LIMIT_S
        while not Path(after_file).exists() and time.monotonic() < end:
            time.sleep(0.01)
        if fault == "exception":
            raise RuntimeError("on purpose")
        if fault == "slow":
            time.sleep(_SLOW_S)
        else:
            os.kill(os.getpid(), signal.Signals[fault])


def noted(value):
    """:return: the tensor of TensorFlow, as it is; steps that compute it are noted"""
    import tensorflow as tf  # noqa: PLC0415 (not for those who use PyTorch)

    def note(array):
        note_step()
        return array

    result = tf.numpy_function(note, [value], value.dtype)
    result.set_shape(value.shape)
    return result
