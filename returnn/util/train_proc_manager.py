"""
Runs the training in another process, and starts that again when it crashes (option `use_train_proc_manager`).

A training that crashes goes on after its last model file when it is started again. It is started again only if there is
a new model file since the last start. So an error that comes again and again ends the run, with the exit status of the
training.
"""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import sys
from types import FrameType
from typing import Any

from returnn.util.system.child_process import with_end_of_parent

_IS_MANAGED = "RETURNN_TRAIN_PROC_MANAGED"  # is set in the environment of the training
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def maybe_start_train_proc_manager(*, config: Any) -> None:
    """
    Becomes the manager of this training, if the config wants one. Then it does not return.

    :param config: `use_train_proc_manager`, `task`, `model`
    """
    options = config.options
    if options.use_train_proc_manager and options.task == "train" and _IS_MANAGED not in os.environ:
        main_proc_manager(config=config)


def main_proc_manager(*, config: Any) -> None:
    """
    Runs the training until it ends well, or fails without a new model file. Ends the process with its exit status.

    :param config: its option `model`
    """
    stopped: list[int] = []
    while True:
        before = _model_files(config.options.model)
        status = _run_once(stopped)
        has_progress = bool(_model_files(config.options.model) - before)
        if status == 0 or stopped or not has_progress:
            sys.exit(status if status >= 0 else 128 - status)
        print(f"training ended with status {status} after some progress: starts again", file=sys.stderr)


def _run_once(stopped: list[int]) -> int:
    """
    :param stopped: gets the signals that this process was sent, and handed on
    :return: exit status, or minus the number of the signal
    """
    environment = {**os.environ, _IS_MANAGED: "1"}
    command = [*with_end_of_parent(signal.SIGTERM), sys.executable, *sys.orig_argv[1:]]
    process = subprocess.Popen(command, env=environment)

    def hand_on(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        process.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in _FORWARDED}
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _model_files(model: str | None) -> set[str]:
    return set(glob.glob(f"{glob.escape(model)}.*.index")) if model else set()
