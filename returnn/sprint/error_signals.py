"""
Questions about sequences to RASR, which runs in processes of its own: loss with error signal, and automata.

The other side is `returnn.sprint.control`. Several processes share the sequences of a batch.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar

import numpy
import numpy.typing

from returnn.datasets.sprint.sprint_pipe import format_options, send
from returnn.datasets.sprint.sprint_process import Args, SprintProcess, evaluated_args
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.python.introspect import collect_class_init_kwargs

Array = numpy.typing.NDArray[Any]


class SprintSubprocessInstance:
    """A process of RASR. It is started with the first question."""

    Version: ClassVar[int] = 1  # of the questions

    def __init__(
        self,
        sprintExecPath: Args,
        minPythonControlVersion: int = 2,
        sprintConfigStr: Args = "",
        sprintControlConfig: Mapping[str, Any] | None = None,
        usePythonSegmentOrder: bool = True,
    ):
        """
        :param sprintExecPath: the program `nn-trainer` of RASR; a list: with arguments
        :param minPythonControlVersion: the least version of the interface that RASR has to have
        :param sprintConfigStr: arguments as in a shell; a list of such, or a function that returns such
        :param sprintControlConfig: more options for the Python side, by name
        :param usePythonSegmentOrder: tell RASR that it shall not go through its corpus by itself
        """
        self.sprintExecPath = evaluated_args(sprintExecPath, split=False)
        self.minPythonControlVersion = minPythonControlVersion
        self.sprintConfig = evaluated_args(sprintConfigStr, split=True)
        self.sprintControlConfig = dict(sprintControlConfig or {})
        self.usePythonSegmentOrder = usePythonSegmentOrder
        self.is_calculating = False
        self._process: SprintProcess | None = None
        self._pending: tuple[Any, ...] | None = None

    @property
    def child_pid(self) -> int | None:
        """Process id of RASR, while it runs."""
        return self._process.process.pid if self._process else None

    def init(self) -> None:
        """
        Starts the process.

        :raises ConfigError: if there is no such program
        :raises UserError: if it is too old, or ends
        """
        if shutil.which(self.sprintExecPath[0]) is None:
            raise ConfigError(
                f"sprint_opts: option 'sprintExecPath': there is no program {self.sprintExecPath[0]!r}.\n"
                "  Give the path of the 'nn-trainer' of RASR: https://github.com/rwth-i6/rasr"
            )
        self._process = SprintProcess(self.sprintExecPath, self._make_args)
        version = self.ask("version")
        if version < self.minPythonControlVersion:
            self.exit_handler()
            raise UserError(
                f"RASR has version {version} of its Python interface, but at least {self.minPythonControlVersion} is "
                "required (sprint_opts: option 'minPythonControlVersion')."
            )

    def ask(self, *question: Any) -> Any:
        """
        :param question: command for RASR, and its arguments
        :return: the answer
        :raises UserError: if RASR says that there is an error, or ends
        """
        self._send(question)
        return self._read(question)

    def get_loss_and_error_signal__send(self, seg_name: str, seg_len: int, log_posteriors: Array) -> None:
        """
        The first half of a question, so that RASR computes while something else is done here.

        :param seg_name: of the segment
        :param seg_len: in frames
        :param log_posteriors: (T, F)
        """
        self._pending = ("get_loss_and_error_signal", seg_name, seg_len, log_posteriors)
        self.is_calculating = True
        self._send(self._pending)

    def get_loss_and_error_signal__have_data(self) -> bool:
        """:return: whether the answer is there, or RASR has ended"""
        return self._process is None or self._process.has_message()

    def get_loss_and_error_signal__read(self) -> tuple[str, float, Array]:
        """
        The second half. It waits for the answer.

        :return: name of the segment; loss; (T, F), see `SprintInstancePool.get_batch_loss_and_error_signal`
        :raises UserError: if RASR says that there is an error, or ends
        """
        assert self._pending is not None, "get_loss_and_error_signal__send has to be called first"
        question, self._pending = self._pending, None
        self.is_calculating = False
        loss, error_signal = self._read(question)
        return question[1], float(loss), error_signal

    def _send(self, question: Sequence[Any]) -> None:
        if self._process is None:
            self.init()
        assert self._process is not None
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either, which is the error
            send(tuple(question), self._process.to_child)

    def _read(self, question: Sequence[Any]) -> Any:
        answer = None if self._process is None else self._process.receive()
        if not isinstance(answer, tuple):
            ended = "" if self._process is None else self._process.how_it_ended()
            self.exit_handler()
            raise UserError(f"RASR has ended instead of answering {_text_of(question)}{ended}")
        status, result = answer
        if status != "ok":
            raise UserError(f"RASR cannot answer {_text_of(question)}.\n  {result}")
        return result

    def exit_handler(self) -> None:
        """Ends the process, if it runs."""
        if self._process is not None:
            self._process.stop()
            self._process.close()
            self._process = None

    def _make_args(self, c2p_fd: int, p2c_fd: int) -> list[str]:
        path, module = Path(__file__).resolve().parents[2], "returnn.sprint.control"
        options = format_options(c2p_fd=c2p_fd, p2c_fd=p2c_fd, **self.sprintControlConfig)
        return [
            *self.sprintConfig,
            f"--*.python-segment-order={str(self.usePythonSegmentOrder).lower()}",
            f"--*.python-segment-order-pymod-path={path}",
            f"--*.python-segment-order-pymod-name={module}",
            f"--*.python-segment-order-config={options}",
            f"--*.pymod-path={path}",
            f"--*.pymod-name={module}",
            f"--*.pymod-config={options}",
        ]


class SprintInstancePool:
    """Some processes of RASR, which share the sequences of a batch."""

    class_lock: ClassVar[RLock] = RLock()  # type: ignore[valid-type]  # it is a function in old versions of Python
    global_instances: ClassVar[dict[str, SprintInstancePool]] = {}

    @classmethod
    def get_global_instance(cls, sprint_opts: Mapping[str, Any]) -> SprintInstancePool:
        """:return: always the same for the same options"""
        with cls.class_lock:
            return cls.global_instances.setdefault(repr(sorted(sprint_opts.items(), key=str)), cls(sprint_opts))

    def __init__(self, sprint_opts: Mapping[str, Any]):
        """
        :param sprint_opts: options of `SprintSubprocessInstance`, and "numInstances", the number of processes
        :raises ConfigError: if an option is not known, or one is missing
        """
        options = dict(sprint_opts)
        self.max_num_instances = int(options.pop("numInstances", 1))
        known = collect_class_init_kwargs(SprintSubprocessInstance)
        for name in options:
            check_known("option", name, [*known, "numInstances"], where="sprint_opts")
        if "sprintExecPath" not in options:
            raise ConfigError("sprint_opts: the option 'sprintExecPath' is required: the 'nn-trainer' of RASR.")
        self.sprint_opts = dict(sprint_opts)
        self.instances = [SprintSubprocessInstance(**options) for _ in range(max(1, self.max_num_instances))]
        self._free: queue.SimpleQueue[SprintSubprocessInstance] = queue.SimpleQueue()
        for instance in self.instances:
            self._free.put(instance)

    def get_free_instance(self) -> SprintSubprocessInstance | None:
        """:return: a process which does not compute, for a question of one's own; None if all of them do"""
        return next((instance for instance in self.instances if not instance.is_calculating), None)

    def get_batch_loss_and_error_signal(
        self, log_posteriors: Array, seq_lengths: Array, tags: Sequence[Any]
    ) -> tuple[Array, Array]:
        """
        :param log_posteriors: (T, B, F)
        :param seq_lengths: (B,), in frames
        :param tags: (B,), names of the segments
        :return: (B,), loss; (T, B, F), its gradient of the log posteriors before normalization, 0 for padded frames
        """
        error_signal = numpy.zeros_like(log_posteriors)

        def ask(item: tuple[int, str], instance: SprintSubprocessInstance) -> float:
            index, tag = item
            length = int(seq_lengths[index])
            scores = numpy.ascontiguousarray(log_posteriors[:length, index])
            loss, signal = instance.ask("get_loss_and_error_signal", tag, length, scores)
            error_signal[:length, index] = signal
            return float(loss)

        return numpy.array(self._for_all(ask, enumerate(map(_text, tags))), dtype="float32"), error_signal

    def get_automata_for_batch(self, tags: Sequence[Any]) -> tuple[Array, Array, Array]:
        """
        :param tags: (B,), names of the segments
        :return: edges (4, num), int32: state from, state to, label, index in the batch; weights (num,), negative log
            probabilities; (2, B), int32: first and last state of each sequence
        """

        def ask(item: tuple[int, str], instance: SprintSubprocessInstance) -> tuple[int, Array, Array]:
            index, tag = item
            num_states, num_edges, edges, weights = instance.ask("export_allophone_state_fsa_by_segment_name", tag)
            edges = numpy.asarray(edges).astype("int32").reshape(3, num_edges)
            sequence = numpy.full((1, num_edges), index, dtype="int32")
            return num_states, numpy.concatenate([edges, sequence]), numpy.asarray(weights, dtype="float32")

        automata = self._for_all(ask, enumerate(map(_text, tags)))
        ends = numpy.cumsum([num_states for num_states, _, _ in automata]).astype("int32")
        starts = ends - numpy.array([num_states for num_states, _, _ in automata], dtype="int32")
        for start, (_, edges, _) in zip(starts, automata, strict=True):
            edges[:2] += start  # the states of all sequences are numbered one behind the other
        edges, weights = ([item[i] for item in automata] for i in (1, 2))
        return numpy.concatenate(edges, axis=1), numpy.concatenate(weights), numpy.stack([starts, ends - 1])

    def close(self) -> None:
        """Ends all processes."""
        for instance in self.instances:
            instance.exit_handler()

    def _for_all(self, ask: Callable[[Any, SprintSubprocessInstance], Any], items: Iterable[Any]) -> list[Any]:
        def ask_a_free_one(item: Any) -> Any:
            instance = self._free.get()
            try:
                return ask(item, instance)
            finally:
                self._free.put(instance)

        with ThreadPoolExecutor(len(self.instances)) as threads:
            return list(threads.map(ask_a_free_one, items))


def _text(tag: Any) -> str:
    return tag.decode("utf-8") if isinstance(tag, bytes) else str(tag)


def _text_of(question: Sequence[Any]) -> str:
    return " ".join(str(part) for part in question if isinstance(part, (str, int)))
