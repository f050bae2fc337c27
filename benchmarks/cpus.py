"""On how many CPUs a comparison runs."""

from __future__ import annotations

import os
from pathlib import Path

import tensorflow as tf

_ALL = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []  # only Linux has it


def use_cpus(number: int) -> None:
    """
    Binds all threads of this process to so many CPUs.

    The options of a session do not say enough: TensorFlow has one pool of threads for operations in a process, as large
    as its first session wants, which may be one that the toolkit makes for itself. That is done here; with the largest
    number, this has to be called first.
    """
    settings = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=number, inter_op_parallelism_threads=number)
    tf.compat.v1.Session(graph=tf.Graph(), config=settings).close()
    for task in Path("/proc/self/task").iterdir() if _ALL else ():
        os.sched_setaffinity(int(task.name), _ALL[-number:])
