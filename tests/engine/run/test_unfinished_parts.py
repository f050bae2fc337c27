"""Checkpoints inside of an epoch of several processes: at any time, those on the disk are complete."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field

import numpy
import pytest

from returnn.config import Config
from returnn.engine.epochs import Epochs
from returnn.engine.model_names import ModelNames
from returnn.engine.run.processes import Processes
from returnn.engine.run.unfinished import Wishes
from returnn.engine.run.unfinished_epochs import UnfinishedEpochs
from returnn.engine.run.worker_options import WorkerOptions
from returnn.engine.training_position import BatchPosition, PositionError, TrainingPosition
from returnn.log import log
from returnn.util.files.checkpoint_files import CheckpointError
from returnn.util.numbers.global_random import GlobalRandomState
from returnn.util.system.process_group import ProcessPlace

LIMIT_S = 120


class Threads(Processes):
    """Threads in the place of processes."""

    option_name = "distributed_tf"

    def __init__(self, place, shared):
        self.place, self.options, self._shared = place, WorkerOptions(), shared

    def sum(self, values):
        values = numpy.asarray(values, "float64")
        self._shared.values[self.rank] = values
        self._shared.barrier.wait(LIMIT_S)
        total = numpy.sum([self._shared.values[rank] for rank in range(self.size)], axis=0)
        self._shared.barrier.wait(LIMIT_S)
        return total


@dataclass
class Shared:
    barrier: threading.Barrier
    values: dict[int, numpy.ndarray] = field(default_factory=dict)


@dataclass
class Disk:
    """Checkpoints as a dict, and what was there after each change."""

    files: dict[str, tuple[dict, str]] = field(default_factory=dict)
    states: list[dict] = field(default_factory=list)
    unwritable: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin_epoch(self):
        pass

    def existing(self, model):
        return {int(name.split(".")[1]): name for name in sorted(self.files) if name.endswith(".unfinished")}

    def existing_parts(self, model):
        return {name: int(name.split(".")[1]) for name in sorted(self.files) if ".worker" in name}

    def leaves(self, snapshot):
        return snapshot

    def bytes_of(self, leaf):
        yield json.dumps(leaf).encode()

    def write(self, checkpoint, snapshot, position):
        with self.lock:
            if checkpoint in self.unwritable:
                raise CheckpointError(f"checkpoint {checkpoint!r} cannot be written: disk full")
            self.files[checkpoint] = dict(snapshot), position
            self.states.append(dict(self.files))

    def write_part(self, part, leaves, position):
        self.write(part, leaves, position)

    def read_position(self, checkpoint):
        if checkpoint not in self.files:
            raise CheckpointError(f"checkpoint {checkpoint!r} does not exist.")
        return self.files[checkpoint][1]

    def delete(self, checkpoint):
        with self.lock:
            del self.files[checkpoint]
            self.states.append(dict(self.files))


def position(step, epoch=1):
    return TrainingPosition(epoch, 0, step, 0, BatchPosition(), 0.0, {}, {}, GlobalRandomState.current(), num_workers=1)


def in_all(size, run):
    """:return: what it returns for each of the processes, by rank"""
    shared = Shared(threading.Barrier(size))
    results = {}

    def start(rank):
        try:
            results[rank] = run(Threads(ProcessPlace(rank, size, rank, size, "torchrun"), shared))
        except BaseException as exc:  # noqa: BLE001 (raised below)
            results[rank] = exc
            shared.barrier.abort()

    threads = [threading.Thread(target=start, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    errors = [result for result in results.values() if isinstance(result, BaseException)]
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(size)]


def unfinished_epochs(disk, processes, epoch=1):
    config = Config({"save_interval_steps": 1, "model": "net", "num_epochs": 3})
    epochs = Epochs(config)
    epochs.current = epoch
    return UnfinishedEpochs(config, ModelNames(config, epochs), disk, are_written=True, processes=processes)


def save_steps(disk, size, steps):
    def run(processes):
        unfinished = unfinished_epochs(disk, processes)
        for step in steps:
            snapshot = {"same": step, "own": [step, processes.rank], "sometimes": processes.rank * (step % 2)}
            unfinished.save(position(step), snapshot, last_model=0)
        return unfinished.wait()

    return in_all(size, run)


def newest(disk, size):
    def run(processes):
        return unfinished_epochs(disk, processes).newest(last_model=0)

    return in_all(size, run)


@pytest.fixture(autouse=True)
def silent():
    log.initialize(verbosity=[1])


def test_what_differs_is_in_the_parts():
    disk = Disk()
    assert save_steps(disk, 3, [1, 2]) == [True, True, True]
    assert disk.files["net.001.unfinished.step1.worker2"][0] == {"own": [1, 2], "sometimes": 2}
    assert disk.files["net.001.unfinished.step2.worker2"][0] == {"own": [2, 2]}
    assert disk.files["net.001.unfinished"][0] == {"same": 2, "own": [2, 0], "sometimes": 0}


def test_a_process_killed_at_any_time_leaves_all_parts_of_the_newest_step():
    disk = Disk()
    save_steps(disk, 3, range(1, 6))
    steps = []
    for files in disk.states:
        found = newest(Disk(files), 3)
        if "net.001.unfinished" not in files:
            assert found == [None, None, None]
            continue
        assert len({each.position.num_steps for each in found}) == 1
        assert [each.part for each in found[1:]] == [
            f"net.001.unfinished.step{found[0].position.num_steps}.worker{rank}" for rank in (1, 2)
        ]
        steps.append(found[0].position.num_steps)
    assert steps == sorted(steps)
    assert steps[-1] == 5
    assert len(disk.files) <= 1 + 2 * 2  # parts of the last two steps


def test_no_process_uses_it_if_one_lacks_its_part(capsys):
    log.initialize(verbosity=[3])
    disk = Disk()
    save_steps(disk, 3, [1])
    del disk.files["net.001.unfinished.step1.worker1"]
    assert newest(disk, 3) == [None, None, None]
    assert "Worker 1 cannot go on from it: a part is missing or damaged" in capsys.readouterr().out


@pytest.mark.parametrize("size", [1, 2])
def test_another_number_of_workers_begins_the_epoch_again(size, capsys):
    log.initialize(verbosity=[3])
    disk = Disk()
    save_steps(disk, 3, [1])
    found = newest(disk, size) if size > 1 else [unfinished_epochs(disk, None).newest(last_model=0)]
    assert found == [None] * size
    assert "It is of 3 workers, and there" in capsys.readouterr().out


def test_a_part_that_cannot_be_written_keeps_the_step_before(capsys):
    log.initialize(verbosity=[3])
    disk = Disk(unwritable={"net.001.unfinished.step2.worker1"})
    assert save_steps(disk, 2, [1, 2]) == [False, False]
    assert "disk full" in capsys.readouterr().out
    assert [each.position.num_steps for each in newest(disk, 2)] == [1, 1]


def test_the_model_of_the_epoch_replaces_all_parts():
    disk = Disk()
    save_steps(disk, 3, [1, 2])
    in_all(3, lambda processes: unfinished_epochs(disk, processes).delete() if processes.is_first else None)
    assert not disk.files


def test_all_do_what_one_wants():
    wishes = [Wishes(save=True), Wishes(), Wishes(end=True)]
    assert (
        in_all(3, lambda processes: processes.what_one_wants(wishes[processes.rank]))
        == [Wishes(save=True, end=True)] * 3
    )


def test_data_that_has_changed_for_one_is_an_error_of_all():
    def items(rank):
        if rank == 1:
            raise PositionError("other batches")
        yield rank

    def run(processes):
        with pytest.raises(PositionError) as caught:
            processes.first_of(items(processes.rank))
        return str(caught.value)

    assert in_all(2, run) == ["Worker 1 has other data than before.", "other batches"]
