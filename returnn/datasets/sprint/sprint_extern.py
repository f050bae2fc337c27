"""`ExternSprintDataset`: RASR runs as another process, and sends its sequences."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

from returnn.datasets.core.seq_order import SeqOrder, is_order_asked_for
from returnn.datasets.sprint.sprint_base import SprintDatasetBase
from returnn.datasets.sprint.sprint_pipe import GO, Data, End, Init, format_options
from returnn.datasets.sprint.sprint_process import Args, SprintProcess, evaluated_args
from returnn.util.errors import ConfigError, UserError
from returnn.util.system.warn_once import warn_once

_INTERFACE_MODULE = "returnn.sprint.extern_interface"


class ExternSprintDataset(SprintDatasetBase):
    """
    Starts RASR anew for each epoch. It reads the corpus and computes the features.

    RASR decides on the order of the sequences. Its random seed is `--*.seed`, which is another one in each (full)
    epoch.
    """

    def __init__(
        self, sprintTrainerExecPath: Args, sprintConfigStr: Args, partitionEpoch: int | None = None, **kwargs: Any
    ):
        """
        :param sprintTrainerExecPath: the program `nn-trainer` of RASR; a list: with arguments
        :param sprintConfigStr: arguments as in a shell, e.g. "--config=rasr.config --*.corpus.file=$CORPUS"; a list of
            such, or a function that returns such
        :param partitionEpoch: old name of `partition_epoch`
        """
        if partitionEpoch is not None:
            kwargs.setdefault("partition_epoch", partitionEpoch)
        super().__init__(**kwargs)
        if is_order_asked_for(self.seq_ordering):
            warn_once(f"{self.description}: 'seq_ordering' has no effect, RASR decides on the order.")
        self.sprint_trainer_exec_path = evaluated_args(sprintTrainerExecPath, split=False)
        self.sprint_config = evaluated_args(sprintConfigStr, split=True)
        if not self.sprint_trainer_exec_path or shutil.which(self.sprint_trainer_exec_path[0]) is None:
            raise ConfigError(
                f"{self.description}: option 'sprintTrainerExecPath': there is no program "
                f"{(self.sprint_trainer_exec_path or [''])[0]!r}.\n"
                "  Give the path of the 'nn-trainer' of RASR: https://github.com/rwth-i6/rasr"
            )
        self._child: _Child | None = None
        self.reader_thread: Thread | None = None

    @property
    def child_pid(self) -> int | None:
        """Process id of RASR, while it runs."""
        return self._child.process.pid if self._child else None

    def initialize(self) -> None:
        super().initialize()
        self._start_child(epoch=1, seq_list=None)  # to know the dims

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        is_ready = self._child is not None and self._child.is_fresh_for(epoch or 1, seq_list)
        if not is_ready:
            self._stop_child()
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        if not is_ready:
            self._start_child(epoch=epoch or 1, seq_list=seq_list)
        assert self._child
        self.init_sprint_epoch(None)
        self._child.go()
        self.reader_thread = Thread(
            target=self._read_child, args=(self._child,), name=f"{self.name} reader", daemon=True
        )
        self.reader_thread.start()
        return True

    def finish_epoch(self, *, free_resources: bool = False) -> None:
        super().finish_epoch(free_resources=free_resources)
        self._stop_child()

    def _start_child(self, epoch: int, seq_list: Sequence[str] | None) -> None:
        child = _Child(
            self.sprint_trainer_exec_path,
            self.sprint_config,
            seed=self.get_random_seed_for_epoch(epoch, self.partition_epoch),
            num_parts=self.partition_epoch,
            part=(epoch - 1) % self.partition_epoch,
            epoch=epoch,
            seq_list=seq_list,
        )
        try:
            message = child.receive()
        except UserError:
            child.stop()
            child.close()
            raise
        if not isinstance(message, Init):
            ended = child.how_it_ended()
            child.close()
            raise UserError(f"{self.description}: RASR has ended before the first sequence{ended}")
        if self._estimated_num_seqs is None:  # RASR may leave some out, so it is not the exact number
            self._estimated_num_seqs = message.num_segments
        self.set_dimensions(message.input_dim, message.output_dim)
        self._child = child

    def _stop_child(self) -> None:
        with self.cond:
            self.ready_for_data = False
            self.cond.notify_all()
            child = self._child
            if child is None:
                return
            child.stop()
            # Not a join: this thread may have the lock, which the other one needs to come to its end.
            self.cond.wait_for(lambda: child.is_read_to_end or self.reader_thread is None)
            child.close()
            self._child = self.reader_thread = None

    def _read_child(self, child: _Child) -> None:
        """Runs in a thread of its own."""
        try:
            while isinstance(message := child.receive(), Data):
                self.add_new_data(message.features, message.targets, segment_name=message.segment_name)
            if isinstance(message, End):
                self.finish_sprint_epoch()
            elif self.ready_for_data:
                ended = child.how_it_ended()
                self._fail(UserError(f"{self.description}: RASR has ended in the middle of the epoch{ended}"))
        except UserError as exc:
            self._fail(exc)
        finally:
            with self.cond:
                child.is_read_to_end = True
                self.cond.notify_all()


class _Child(SprintProcess):
    """A process of RASR, for one epoch."""

    def __init__(
        self,
        program: Sequence[str],
        args: Sequence[str],
        *,
        seed: int,
        num_parts: int,
        part: int,
        epoch: int,
        seq_list: Sequence[str] | None,
    ):
        self._key = (epoch, None if seq_list is None else tuple(seq_list))
        self._is_fresh = True
        self.is_read_to_end = False  # set by the thread that reads
        self._segment_file = _write_lines(seq_list) if seq_list is not None else None

        def make_args(c2p_fd: int, p2c_fd: int) -> list[str]:
            segment_list = self._segment_file and self._segment_file.name
            options = format_options(
                c2p_fd=c2p_fd, p2c_fd=p2c_fd, num_parts=num_parts, part=part, segment_list=segment_list
            )
            return [*args, *_interface_args(options, seed)]

        super().__init__(program, make_args)

    def is_fresh_for(self, epoch: int, seq_list: Sequence[str] | None) -> bool:
        """:return: whether it waits to begin with just that"""
        return self._is_fresh and self._key == (epoch, None if seq_list is None else tuple(seq_list))

    def go(self) -> None:
        """It shall send the sequences."""
        self._is_fresh = False
        with contextlib.suppress(BrokenPipeError):  # it has died: who reads will see that
            self.to_child.write(GO)

    def close(self) -> None:
        super().close()
        if self._segment_file:
            self._segment_file.close()


def _interface_args(options: str, seed: int) -> list[str]:
    """How RASR gets to call `extern_interface`."""
    path = Path(__file__).resolve().parents[3]
    return [
        f"--*.seed={seed}",
        "--*.python-segment-order=true",
        f"--*.python-segment-order-pymod-path={path}",
        f"--*.python-segment-order-pymod-name={_INTERFACE_MODULE}",
        f"--*.python-segment-order-config={options}",
        "--*.use-data-source=false",
        "--*.trainer=python-trainer",
        f"--*.pymod-path={path}",
        f"--*.pymod-name={_INTERFACE_MODULE}",
        f"--*.pymod-config={options}",
    ]


def _write_lines(lines: Sequence[str]) -> Any:
    file = tempfile.NamedTemporaryFile("w", suffix=".segments", encoding="utf-8")  # noqa: SIM115 - closed by the child
    file.writelines(f"{line}\n" for line in lines)
    file.flush()
    return file
