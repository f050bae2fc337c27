"""What comes at the same time is computed at once, and what fails harms nobody else."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from returnn.serve.http_service import HttpError
from returnn.serve.waiting_inputs import WaitingInputs
from tests.serve.asking import LIMIT_S


class EndError(Exception):
    pass


class Worker:
    """Runs `WaitingInputs` in a thread; each batch has to be let through."""

    def __init__(self, compute, *, max_inputs=100, wait_s=0.0):
        self.batches = []
        self.has_begun, self.may_go_on, self.must_end = threading.Event(), threading.Event(), threading.Event()
        self._compute = compute
        self.waiting = WaitingInputs(self.compute, max_inputs=max_inputs, wait_s=wait_s)

    def compute(self, values):
        self.batches.append(list(values))
        self.has_begun.set()
        assert self.may_go_on.wait(LIMIT_S)
        return [self._compute(value) for value in values]

    def check(self):
        if self.must_end.is_set():
            raise EndError

    def ask(self, value, limit_s=LIMIT_S):
        return self.waiting.output_of(value, deadline_s=time.monotonic() + limit_s)

    def run(self):
        with pytest.raises(EndError):
            self.waiting.run(self.check)

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.must_end.set()
        self.may_go_on.set()
        self.thread.join()


def wait_for(condition):
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def test_what_comes_during_a_batch_is_the_next_one():
    with Worker(lambda value: value * 10) as worker, ThreadPoolExecutor(10) as pool:
        first = pool.submit(worker.ask, 0)
        assert worker.has_begun.wait(LIMIT_S)
        others = [pool.submit(worker.ask, value) for value in range(1, 9)]
        wait_for(lambda: worker.waiting._queue.qsize() == 8)
        worker.may_go_on.set()
        assert [future.result() for future in [first, *others]] == [value * 10 for value in range(9)]
    assert worker.batches[0] == [0]
    assert sorted(worker.batches[1]) == list(range(1, 9))
    assert len(worker.batches) == 2


def test_one_that_fails_harms_no_other_one():
    def compute(value):
        if value == 2:
            raise ValueError("two is wrong")
        return value

    with Worker(compute, wait_s=LIMIT_S, max_inputs=3) as worker, ThreadPoolExecutor(3) as pool:
        worker.may_go_on.set()
        futures = [pool.submit(worker.ask, value) for value in (1, 2, 3)]
        assert [futures[0].result(), futures[2].result()] == [1, 3]
        with pytest.raises(ValueError, match="two is wrong"):
            futures[1].result()
    assert sorted(map(len, worker.batches)) == [1, 1, 1, 3]


def test_who_waits_too_long_is_told_and_not_computed_later():
    with Worker(lambda value: value) as worker, ThreadPoolExecutor(3) as pool:
        first = pool.submit(worker.ask, "first")
        assert worker.has_begun.wait(LIMIT_S)
        with pytest.raises(HttpError, match=r"^no answer within ") as raised:
            worker.ask("late", limit_s=0.05)
        assert raised.value.status == 504
        worker.may_go_on.set()
        assert first.result() == "first"
        assert worker.ask("next") == "next"
    assert ["late"] not in worker.batches


def test_those_that_wait_at_the_end_are_told():
    with Worker(lambda value: value) as worker, ThreadPoolExecutor(3) as pool:
        first = pool.submit(worker.ask, 1)
        assert worker.has_begun.wait(LIMIT_S)
        second = pool.submit(worker.ask, 2)
        wait_for(lambda: worker.waiting._queue.qsize() == 1)
        worker.must_end.set()
        worker.may_go_on.set()
        assert first.result() == 1
        with pytest.raises(HttpError, match=r"^the server ends\.$"):
            second.result()
        with pytest.raises(HttpError, match=r"^the server ends\.$"):
            worker.ask(3)


def test_a_batch_that_a_signal_ends_is_answered():
    waiting = WaitingInputs(lambda values: (_ for _ in ()).throw(KeyboardInterrupt), max_inputs=3, wait_s=0.0)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(waiting.output_of, 1, deadline_s=time.monotonic() + LIMIT_S)
        with pytest.raises(KeyboardInterrupt):
            waiting.run(lambda: None)
        with pytest.raises(HttpError, match="the server ends"):
            future.result()
