"""Threads of summary writers, which concern the whole process; and copies of nets."""

from __future__ import annotations

import gc
from typing import Any

from tensorflow.python.summary.writer.event_file_writer import EventFileWriter

from returnn.util.python.nested import deepcopy


def stop_event_writer_thread(event_writer: Any) -> None:
    """
    :param event_writer: of summaries; writes what it has, and its thread ends
    """
    event_writer = getattr(event_writer, "event_writer", event_writer)
    event_writer.close()


def stop_all_event_writer_threads() -> None:
    """Ends the threads of all writers of summaries in this process, e.g. before it forks."""
    for writer in gc.get_objects():
        if issubclass(type(writer), EventFileWriter):  # not isinstance: it asks objects, and some warn then
            stop_event_writer_thread(writer)


def safe_deep_copy(obj: Any) -> Any:
    """:return: new dicts, lists, tuples and sets, with the same objects inside, such as tensors, dims and layers"""
    return deepcopy(obj)
