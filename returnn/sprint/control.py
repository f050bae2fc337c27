"""
Runs inside of RASR, started by `returnn.sprint.error_signals`: answers questions about sequences, one after the other.

RASR imports this module, calls `init`, and then `PythonControl.run_control_loop` with its callback. A question is a
tuple of what the callback gets: the name of a command and its arguments. The answer is a tuple: "ok" and the result, or
"error" and a text. The loop ends with the pipe.

A version of RASR without that loop goes through its corpus. `getSegmentList` gives it the segments that are asked for,
and `SprintNnPythonLayer` stands in its network for ours; see `current_segment.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from threading import Thread
from typing import Any, ClassVar

import numpy
import numpy.typing

from returnn.datasets.sprint.sprint_pipe import parse_options, receive, send
from returnn.sprint.current_segment import CurrentSegment
from returnn.util.errors import UserError

Array = numpy.typing.NDArray[Any]
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
        self.callback: Callback | None = None
        self.segment = CurrentSegment()
        self.posteriors_in_log_space = True
        self.sprint_knows_about_log_space_probs = False  # otherwise its layers have probabilities
        self.sprint_version_number: int | None = None
        self.control_loop_started = False
        self.control_loop_exited = False
        self._thread: Thread | None = None

    def init_processing(self, input_dim: int | None = None, output_dim: int | None = None, **_kwargs: Any) -> None:
        """Called when RASR goes through a corpus, with its dims. The layer in its network has them, too."""

    def process_segment(
        self,
        name: str,
        orthography: str,
        features: Array | None = None,
        alignment: Array | None = None,
        soft_alignment: Any = None,
        **_kwargs: Any,
    ) -> None:
        """
        Called for each segment, when RASR goes through a corpus.

        :param name: of the segment
        :param orthography: its text
        :param features: (dim, frames)
        :param alignment: (frames,)
        :param soft_alignment: frames, labels and weights
        :raises UserError: if it is not the one that was asked for
        """
        self.segment.check(name=name, length=None if features is None else features.shape[1])

    # Questions which RASR answers at once.

    def run_control_loop(self, callback: Callback, **_kwargs: Any) -> None:
        """
        Answers until the other side closes the pipe.

        :param callback: of RASR: `callback(command, *args)`
        """
        self.callback = callback
        self.control_loop_started = True
        while self.handle_next():
            pass
        self.control_loop_exited = True
        self.segment.close()

    def handle_next(self) -> bool:
        """:return: whether there was a question, which is answered"""
        assert self.callback is not None, "run_control_loop has to be called first"
        question = receive(self.pipe_p2c)
        if question is None:
            return False
        send(_answer(self.callback, question), self.pipe_c2p)
        return True

    # The same for a RASR that goes through its corpus: the loop is in a thread of ours.

    def run_threaded_control_loop(self) -> None:
        """Answers questions in a thread, by what RASR does in the meantime. A second call has no effect."""
        if self._thread is None:
            self.control_loop_started = True
            callback = self.own_threaded_callback
            self._thread = Thread(target=self.run_control_loop, args=(callback,), name="control loop", daemon=True)
            self._thread.start()

    def check_control_loop_running(self) -> bool:
        """:return: whether questions are answered"""
        return self.control_loop_started and not self.control_loop_exited

    def own_threaded_callback(self, cmd: str, *args: Any) -> Any:
        """:return: the answer, like the callback of RASR"""
        if cmd == "version":
            return self.own_tcb_version()
        if cmd == "get_loss_and_error_signal":
            return self.own_tcb_get_loss_and_error_signal(*args)
        raise UserError(f"a RASR that goes through its corpus by itself cannot answer {cmd!r}")

    def own_tcb_version(self) -> int:
        """:return: the version that RASR says it has, or else that of this side"""
        return self.Version if self.sprint_version_number is None else self.sprint_version_number

    def own_tcb_get_loss_and_error_signal(self, seg_name: str, seg_len: int, posteriors: Array) -> tuple[float, Array]:
        """See `CurrentSegment.ask`."""
        return self.segment.ask(seg_name, seg_len, posteriors)

    def segment_list_iterator(self) -> Iterator[str]:
        """:return: names of the segments, as they are asked for. It ends with the questions"""
        self.run_threaded_control_loop()
        yield from self.segment.names()

    def init_segment(self, segment_name: str) -> None:
        """Called when RASR begins with a segment."""
        self.segment.check(name=segment_name)

    def notify_segment_loss(self, segment_name: str, loss: float) -> None:
        """Called when RASR has the loss of a segment."""
        self.set_current_seg_loss(segment_name, loss)

    def get_current_seg_posteriors(self, seg_len: int) -> Array:
        """
        :param seg_len: in frames, as RASR has it
        :return: (F, T), log probabilities or probabilities, see `sprint_knows_about_log_space_probs`
        """
        self.segment.check(length=seg_len)
        assert self.segment.posteriors is not None
        if self.posteriors_in_log_space and not self.sprint_knows_about_log_space_probs:
            return numpy.exp(self.segment.posteriors)
        return self.segment.posteriors

    def set_current_seg_error_signal(self, seg_len: int, error_signal: Array) -> None:
        """
        :param seg_len: in frames
        :param error_signal: (F, T), of the log probabilities before normalization
        """
        self.segment.check(length=seg_len)
        self.segment.set_error_signal(error_signal)

    def set_current_seg_loss(self, seg_name: str | None, loss: float) -> None:
        """
        :param seg_name: of the segment; None: whichever it is
        :param loss: of the segment
        """
        self.segment.check(name=seg_name)
        self.segment.set_loss(loss)

    def exit(self, **_kwargs: Any) -> None:
        """Called last."""
        self.segment.close()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
        if self._thread is None or not self._thread.is_alive():  # otherwise it waits for a question: the process ends
            self.close()

    def close(self) -> None:
        """Closes the pipes."""
        self.pipe_c2p.close()
        self.pipe_p2c.close()


class SprintNnPythonLayer:
    """
    Stands in a network of RASR for our whole network: its output are the posteriors that a question has.

    RASR calls its methods. It has no parameters of its own.
    """

    def __init__(self, config: str, **kwargs: Any):
        """
        :param config: as for `init`
        """
        self.input_size: dict[int, int] = {}
        self.output_size: int | None = None

    def finalize(self) -> None:
        """Called last."""

    def setInputDimension(self, stream: int, size: int) -> None:
        """Called first, for each input."""
        self.input_size[stream] = size

    def setOutputDimension(self, size: int) -> None:
        """Called first."""
        self.output_size = size

    def initializeNetworkParameters(self) -> None:
        """There are none."""

    def loadNetworkParameters(self, filename: str) -> None:
        """There are none."""

    def saveNetworkParameters(self, filename: str) -> None:
        """There are none."""

    def isTrainable(self) -> bool:
        """:return: that it wants an error signal"""
        return True

    def getNumberOfFreeParameters(self) -> int:
        """:return: there are none"""
        return 0

    def forward(self, input: Any) -> Array:
        """
        :param input: for each input (dim, T)
        :return: (F, T)
        """
        posteriors = _instance().get_current_seg_posteriors(input[0].shape[1])
        if self.output_size is not None and posteriors.shape[0] != self.output_size:
            raise UserError(f"RASR wants {self.output_size} outputs, there are {posteriors.shape[0]}")
        return posteriors

    def backpropagate(self, errorSignalIn: Array) -> tuple[Array, ...]:
        """
        :param errorSignalIn: (F, T)
        :return: for each input (dim, T), which has no error signal: 0
        """
        num_frames = errorSignalIn.shape[1]
        _instance().set_current_seg_error_signal(num_frames, errorSignalIn)
        return tuple(
            numpy.zeros((size, num_frames), errorSignalIn.dtype) for _, size in sorted(self.input_size.items())
        )


def _instance() -> PythonControl:
    assert PythonControl.instance is not None, "RASR has to call init first"
    return PythonControl.instance


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
    control = _create(config)
    control.sprint_version_number = version_number
    return control


def getSegmentList(corpusName: str, segmentList: Iterable[str], config: str = "", **_kwargs: Any) -> Iterator[str]:
    """Called if RASR goes through a corpus. :return: the segments that are asked for, as they are"""
    return _create(config).segment_list_iterator()


def _create(config: str) -> PythonControl:
    options = parse_options(config)
    return PythonControl.create(c2p_fd=int(options["c2p_fd"]), p2c_fd=int(options["p2c_fd"]))


def _answer(callback: Callback, question: Any) -> tuple[str, Any]:
    try:
        return "ok", callback(*question)
    except Exception as exc:  # noqa: BLE001 - whatever RASR raises, the other side has to hear of it
        return "error", f"{type(exc).__name__}: {exc}"
