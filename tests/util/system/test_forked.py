"""Functions in processes of their own."""

import os
import time
from functools import partial

import pytest

from returnn.util.errors import UserError
from returnn.util.system.forked import results_of_processes


def square(x, seconds=0.0):
    time.sleep(seconds)
    return x * x, os.getpid()


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_results_are_in_the_order_of_the_functions(at_once):
    functions = [partial(square, x, seconds=0.05 * (3 - x)) for x in range(3)]
    results = results_of_processes(*functions, at_once=at_once)
    assert [value for value, _ in results] == [0, 1, 4]
    assert len({os.getpid(), *(pid for _, pid in results)}) == 4


def test_errors_of_users_are_handed_on():
    def fails():
        raise UserError("this is wrong")

    with pytest.raises(UserError, match="this is wrong"):
        results_of_processes(fails, partial(time.sleep, 60), at_once=2)  # which does not wait for the other one


def test_a_process_that_dies():
    with pytest.raises(UserError, match="a process ended with the exit code 1, without a result"):
        results_of_processes(lambda: 1 // 0)
    with pytest.raises(UserError, match="a process ended with the exit code 3, without a result"):
        results_of_processes(lambda: os._exit(3))
