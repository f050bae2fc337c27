"""
Runs inside of RASR, started by `returnn.sprint.error_signals`: answers questions about sequences, one after the other.

RASR imports this module, calls `init`, and then `PythonControl.run_control_loop` with its callback. A question is a
tuple of what the callback gets: the name of a command and its arguments. The answer is a tuple: "ok" and the result, or
"error" and a text. The loop ends with the pipe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from returnn.datasets.sprint.sprint_pipe import parse_options, receive, send

Callback = Callable[..., Any]


class PythonControl:
    """What RASR calls. The names are those that it calls."""

    Version: ClassVar[int] = 1
    instance: ClassVar[PythonControl | None] = None

    @classmethod
    def create(cls, **kwargs: Any) -> PythonControl:
        """:return: the one instance in this process"""
        if cls.instance is None:
            cls.instance = cls(**kwargs)
        return cls.instance

    def __init__(self, c2p_fd: int, p2c_fd: int, **_kwargs: Any):
        """
        :param c2p_fd: file descriptor to write to
        :param p2c_fd: file descriptor to read from
        """
        self.pipe_c2p = os.fdopen(c2p_fd, "wb")
        self.pipe_p2c = os.fdopen(p2c_fd, "rb")

    def init_processing(self, input_dim: int | None = None, output_dim: int | None = None, **_kwargs: Any) -> None:
        """Called when RASR goes through a corpus, which it does not need to do here."""

    def process_segment(self, name: str, orthography: str, **_kwargs: Any) -> None:
        """Called when RASR goes through a corpus."""

    def run_control_loop(self, callback: Callback, **_kwargs: Any) -> None:
        """
        Answers until the other side closes the pipe.

        :param callback: of RASR: `callback(command, *args)`
        """
        while (question := receive(self.pipe_p2c)) is not None:
            send(_answer(callback, question), self.pipe_c2p)

    def exit(self, **_kwargs: Any) -> None:
        """Called last."""
        self.pipe_c2p.close()
        self.pipe_p2c.close()


def init(
    name: str,
    reference: Any,
    config: str,
    sprint_unit: str | None = None,
    version_number: int | None = None,
    callback: Callback | None = None,
    **_kwargs: Any,
) -> PythonControl:
    """
    Called first.

    :param name: of the unit of RASR
    :param reference: an object by which it tells units apart
    :param config: file descriptors, as `key:value,key:value`
    :param sprint_unit: kind of the unit
    :param version_number: of the interface of RASR
    :param callback: of RASR
    """
    options = parse_options(config)
    return PythonControl.create(c2p_fd=int(options["c2p_fd"]), p2c_fd=int(options["p2c_fd"]))


def getSegmentList(corpusName: str, segmentList: Iterable[str], config: str = "", **_kwargs: Any) -> list[str]:
    """Called if RASR goes through a corpus. :return: no segments: they are asked for by name"""
    return []


def _answer(callback: Callback, question: Any) -> tuple[str, Any]:
    try:
        return "ok", callback(*question)
    except Exception as exc:  # noqa: BLE001 - whatever RASR raises, the other side has to hear of it
        return "error", f"{type(exc).__name__}: {exc}"
