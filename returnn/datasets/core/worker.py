"""
A data set in a process of its own.

The process makes the data set from its options, and sends sequences as fast as they are asked for. It ends when the
pipe to it is closed, so also when the main process dies.

A pipe has one process at each end. So where a process with such a data set is forked, as workers of a data loader are,
the fork starts a process of its own when it reads on, and leaves the first one alone.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import signal
import traceback
import weakref
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from returnn.datasets.core.config_options import data_wait_limit_s
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import DatasetSeq
from returnn.datasets.core.registry import DatasetDict, init_dataset
from returnn.datasets.core.seq_order import SeqOrder
from returnn.datasets.core.worker_process import WorkerProcess
from returnn.datasets.core.wrapper import copy_seq
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.numbers.global_random import seed_global_random
from returnn.util.python.user_code_errors import describe_exception, last_place, last_place_of_user
from returnn.util.system.child_process import end_with_parent
from returnn.util.system.waiting import Waiting, describe_process

_STOP = "stop"
_POLL_S = 1.0


@dataclass(frozen=True)
class DatasetInfo:
    """What a data set says about itself."""

    num_inputs: int
    num_outputs: dict[str, tuple[int, int]]
    labels: dict[str, list[str]]
    data_keys: list[str]
    dims: dict[str, int]
    dtypes: dict[str, str]
    shapes: dict[str, list[int | None]]
    num_axes: dict[str, int]
    is_sparse: dict[str, bool]

    @classmethod
    def of(cls, dataset: Dataset) -> DatasetInfo:
        """:return: all that is needed to stand for it"""
        keys = dataset.get_data_keys()
        return cls(
            num_inputs=dataset.num_inputs,
            num_outputs=dict(dataset.num_outputs),
            labels=dataset.labels,
            data_keys=keys,
            dims={key: dataset.get_data_dim(key) for key in keys},
            dtypes={key: dataset.get_data_dtype(key) for key in keys},
            shapes={key: dataset.get_data_shape(key) for key in keys},
            num_axes={key: dataset.get_num_axes(key) for key in keys},
            is_sparse={key: dataset.is_data_sparse(key) for key in keys},
        )


class DatasetWorker:
    """The process, seen from outside. Each request has one answer, in the same order."""

    def __init__(self, options: DatasetDict, *, name: str, buffer_size: int) -> None:
        """
        :param options: of the data set
        :param name: for messages
        :param buffer_size: how many sequences are asked for in advance
        """
        self._options = options
        self._name = name
        self._buffer_size = max(buffer_size, 1)
        self._epoch: tuple[Any, ...] | None = None  # arguments of the last `start_epoch`
        self._pending: deque[str] = deque()  # requests without an answer
        self._ready: deque[Any] = deque()  # sequences that came while another answer was awaited
        self._next_seq_idx = 0
        self._start()

    def _start(self) -> None:
        self._process = WorkerProcess(self._options, self._name, run_worker)
        self._pipe = self._process.pipe
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _stop, self._process, self._owner)
        _stop_at_exit.add(self)

    def _start_own(self) -> None:
        """In a fork of the process that has started it: starts another one, and goes on where that one is."""
        if os.getpid() == self._owner:
            return
        self._finalizer.detach()
        self._pipe.close()  # of this process alone
        self._next_seq_idx -= self._pending.count("get_seq")
        self._pending.clear()
        self._start()
        if self._epoch is not None:
            self._send("init_seq_order", *self._epoch)

    def close(self) -> None:
        """Ends the process."""
        self._finalizer()

    def call(self, method: str, *args: Any) -> Any:
        """
        :param method: one of `_Server`
        :param args: of it
        :return: what it returns
        :raises UserError: if it raises one
        """
        self._start_own()
        while self._pending:
            is_seq = self._pending[0] == "get_seq"
            answer = self._receive()
            if is_seq:
                self._ready.append(answer)
        self._send(method, *args)
        return self._receive()

    def start_epoch(
        self, epoch: int | None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> None:
        """Starts an epoch, and asks for its first sequences."""
        self._start_own()
        while self._pending:
            self._answer()  # of the epoch before, even if it is an error
        self._ready.clear()
        self._epoch = epoch, seq_list, seq_order
        self._send("init_seq_order", *self._epoch)
        self._next_seq_idx = 0
        self._ask_for_more()

    def next_seq(self) -> DatasetSeq | None:
        """:return: the next sequence of the epoch; None after the last one"""
        self._start_own()
        while self._pending and self._pending[0] != "get_seq":
            self._receive()
        self._ask_for_more()
        seq = self._ready.popleft() if self._ready else self._receive()
        assert seq is None or isinstance(seq, DatasetSeq)
        self._ask_for_more()
        return seq

    def _ask_for_more(self) -> None:
        while len(self._ready) + self._pending.count("get_seq") < self._buffer_size:
            self._send("get_seq", self._next_seq_idx)
            self._next_seq_idx += 1

    def _send(self, method: str, *args: Any) -> None:
        try:
            self._pipe.send((method, args))
        except OSError as exc:
            raise self._died() from exc
        self._pending.append(method)

    def _receive(self) -> Any:
        kind, value = self._answer()
        if kind == "user error":
            raise value
        if kind == "error":
            text, trace = value
            print(f"{self._name}: {trace}", file=log.v5)
            raise UserError(f"{self._name}: {text}")
        return value

    def _answer(self) -> tuple[str, Any]:
        """
        :return: what kind it is, and its value
        :raises UserError: if the process has died, or hangs
        """
        try:
            waiting = Waiting(self._what_is_waited_for, limit_s=data_wait_limit_s())
            while not self._pipe.poll(_POLL_S):
                waiting.check()
            kind, value = self._pipe.recv()
        except (EOFError, OSError) as exc:
            raise self._died() from exc
        self._pending.popleft()
        return kind, value

    def _what_is_waited_for(self) -> str:
        return describe_process(f"{self._name}, {self._pending[0]!r}", self._process.pid)

    def _died(self) -> UserError:
        how = self._process.how_it_ended()
        hint = "\n  As a rule, the machine had too little memory then." if self._process.was_killed else ""
        return UserError(f"{self._name}: its process has died {how}.{hint}")


_stop_at_exit: weakref.WeakSet[DatasetWorker] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    # multiprocessing waits at exit for all processes, so these have to be told before.
    for worker in list(_stop_at_exit):
        worker.close()


def _stop(process: WorkerProcess, owner: int) -> None:
    if os.getpid() != owner:  # in a fork, which shares the pipe
        return
    with contextlib.suppress(OSError):
        process.pipe.send((_STOP, ()))
    process.end()


class _Server:
    """What runs in the process."""

    def __init__(self, options: DatasetDict, name: str) -> None:
        dataset = init_dataset(options)
        assert dataset is not None
        self._dataset = dataset
        self._name = name

    def get_info(self) -> DatasetInfo:
        return DatasetInfo.of(self._dataset)

    def init_seq_order(
        self, epoch: int | None, seq_list: Sequence[str] | None, seq_order: SeqOrder | None
    ) -> int | None:
        self._seed_global_random(epoch)
        self._dataset.init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        try:
            return self._dataset.num_seqs
        except NotImplementedError:
            return None

    def get_order(self, epoch: int | None, seq_list: Sequence[str] | None) -> SeqOrder | None:
        self._seed_global_random(epoch)
        self._dataset.init_seq_order(epoch=epoch, seq_list=seq_list)
        try:
            return self._dataset.get_current_seq_order()
        except NotImplementedError:
            return None

    def get_total_num_seqs(self) -> int | None:
        try:
            return self._dataset.get_total_num_seqs()
        except NotImplementedError:
            return None

    def get_all_tags(self) -> list[str] | None:
        try:
            return self._dataset.get_all_tags()
        except NotImplementedError:
            return None

    def get_seq(self, seq_idx: int) -> DatasetSeq | None:
        if not self._dataset.is_less_than_num_seqs(seq_idx):
            return None
        seq = copy_seq(self._dataset, seq_idx, seq_idx)
        seq.complete_frac = self._dataset.get_complete_frac(seq_idx)
        return seq

    def check_files(self) -> None:
        self._dataset.check_files()

    def finish_epoch(self, free_resources: bool) -> None:
        self._dataset.finish_epoch(free_resources=free_resources)

    def _seed_global_random(self, epoch: int | None) -> None:
        """What code of users draws in this process follows from its name and the epoch."""
        seed_global_random([zlib.crc32(self._name.encode("utf8")), epoch or 1])


def run_worker(options: DatasetDict, pipe: Connection, name: str, is_of_main_thread: bool) -> None:
    """
    What the process does.

    :param options: of the data set
    :param pipe: to the other process
    :param name: of this one
    :param is_of_main_thread: whether the main thread of the other process has started this one
    """
    end_with_parent(is_of_main_thread=is_of_main_thread)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # who is not in front may be stopped for writing to a terminal
    signal.set_wakeup_fd(-1)
    faulthandler.disable()  # the other process tells in one line that this one has died
    answer_requests(options, pipe, name)


def answer_requests(options: DatasetDict, pipe: Connection, name: str) -> None:
    """
    Makes a data set, and does what it is asked to, until it is told to stop or the pipe ends.

    :param options: of the data set
    :param pipe: to whoever asks
    :param name: of this one
    """
    server: _Server | None = None
    while True:
        try:
            method, args = pipe.recv()
        except (EOFError, OSError):
            return
        if method == _STOP:
            return
        try:
            server = server or _Server(options, name)
            answer = "value", getattr(server, method)(*args)
        except UserError as exc:
            answer = "user error", exc
        except (Exception, SystemExit) as exc:  # noqa: BLE001 (is raised again in the main process)
            text = describe_exception(exc, place=last_place_of_user(exc) or last_place(exc))
            answer = "error", (text, traceback.format_exc())
        try:
            pipe.send(answer)
        except OSError:
            return
