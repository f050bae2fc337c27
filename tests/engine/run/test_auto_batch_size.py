"""The largest size that fits is found by trying, without a step beyond the memory of a machine, and kept."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from returnn.config import Config
from returnn.engine.run.auto_batch_size import KnownSizes, Tried, agreed_batch_size, known_batch_size
from returnn.engine.run.processes import Processes
from returnn.util.errors import ConfigError, UserError
from returnn.util.system.process_group import ProcessPlace

LONGEST = 300  # frames of a sequence


class Machine:
    """Fits batches up to a number of frames, or has so many bytes for each."""

    def __init__(self, *, frames=None, bytes_per_frame=None, all_frames=10**9):
        self.frames = frames
        self.bytes_per_frame = bytes_per_frame
        self.all_frames = all_frames
        self.sizes = []

    def try_size(self, size):
        self.sizes.append(size)
        num_seqs = max(min(size, self.all_frames) // LONGEST, 1)
        frames = num_seqs * LONGEST
        peak = None if self.bytes_per_frame is None else 2**30 + self.bytes_per_frame * frames
        return Tried(frames, num_seqs, self.frames is None or frames <= self.frames, peak)


def find(machine, *, processes=None, is_on_host=False, model=None, **options):
    config = Config({"batch_size": "auto", "model": model, "auto_batch_size": options})
    return agreed_batch_size(config, 7, machine.try_size, processes=processes, is_on_host=is_on_host)


@settings(max_examples=50, deadline=None)
@given(st.integers(LONGEST, 10**6), st.integers(1, 10**6))
def test_the_largest_that_fits_to_ten_percent(frames, start):
    machine = Machine(frames=frames)
    size = find(machine, start=start, margin=0)
    fits = machine.try_size(size)
    assert fits.fits
    assert max(size, LONGEST) >= (frames - LONGEST) / 1.3
    assert len(machine.sizes) < 50


@settings(max_examples=50, deadline=None)
@given(st.integers(100, 10**6), st.integers(2, 64))
def test_memory_of_a_machine_is_never_tried_out(bytes_per_frame, gigabytes):
    machine = Machine(bytes_per_frame=bytes_per_frame, all_frames=10**12)
    size = find(machine, is_on_host=True, memory_gb=gigabytes, start=1000)
    limit = gigabytes * 2**30
    peaks = [machine.try_size(tried).peak_bytes for tried in list(machine.sizes)]
    assert machine.try_size(size).peak_bytes <= limit
    assert max(peaks) <= 1.3 * limit
    assert (size + LONGEST) * bytes_per_frame > 0.6 * (limit - 2**30)


def test_all_data_in_one_batch_is_enough():
    machine = Machine(all_frames=7000)
    assert find(machine) == 23 * LONGEST
    assert max(machine.sizes) <= 16_000


def test_no_sequence_fits():
    with pytest.raises(UserError, match=r"not even one sequence fits, with 300 frames: does not fit"):
        find(Machine(frames=100))


def test_it_is_kept_for_the_network(tmp_path):
    model = str(tmp_path / "net")
    machine = Machine(frames=20_000)
    size = find(machine, model=model)
    machine.sizes.clear()
    assert find(machine, model=model) == size
    assert not machine.sizes
    KnownSizes(model).add(1000, 5)
    config = Config({"batch_size": "auto", "model": model})
    assert known_batch_size(config) == 5  # of the largest network
    (tmp_path / "net.batch_size").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        find(machine, model=model)


class TwoWorkers(Processes):
    """The other one has found a size, or knows it."""

    option_name = "distributed_tf"

    def __init__(self, *, rank, others):
        self.place = ProcessPlace(rank, 2, rank, 2, "test")
        self.others = list(others)

    def sum(self, values):
        other = self.others.pop(0)
        return numpy.array(values) + [other if rank != self.rank else 0 for rank in range(2)]


def test_workers_agree_on_the_smallest(tmp_path):
    model = str(tmp_path / "net")
    assert find(Machine(frames=20_000), processes=TwoWorkers(rank=0, others=[0, 700]), model=model) == 700
    assert KnownSizes(model).read() == {"7": 700}
    assert find(Machine(), processes=TwoWorkers(rank=1, others=[700]), model=model) == 700
    with pytest.raises(UserError, match="not even one sequence fits on worker 1"):
        find(Machine(frames=20_000), processes=TwoWorkers(rank=0, others=[0, 0]))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"begin": 1}, "there is no key 'begin'"),
        ({"margin": 1}, "'margin' is 1, which is no number that fits"),
        ({"memory_gb": "8"}, "'memory_gb' is '8'"),
        ({"start": 0}, "have to be above 0"),
    ],
)
def test_wrong_options(options, text):
    with pytest.raises(ConfigError, match=text):
        find(Machine(), **options)


def test_other_tasks_need_a_number(tmp_path):
    with pytest.raises(ConfigError, match="'auto' is found when training begins"):
        known_batch_size(Config({"batch_size": "auto", "model": str(tmp_path / "net")}))
