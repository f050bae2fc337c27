"""Functions that run in processes of their own, which know all that this one knows."""

from __future__ import annotations

import multiprocessing
import sys
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from returnn.util.errors import UserError


def results_of_processes(*functions: Callable[[], Any], at_once: int = 1) -> list[Any]:
    """
    Runs each function in a process that is forked from this one, which must not have computed anything with TensorFlow
    or on a GPU before: what that has running does not come along.

    :param functions: without arguments
    :param at_once: number of processes at the same time
    :return: what they return, in their order
    :raises UserError: if a function does, or its process was killed
    """
    waiting = deque(enumerate(functions))
    running: dict[int, tuple[Any, Connection]] = {}
    results: dict[int, Any] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                index, function = waiting.popleft()
                running[index] = _started(function)
            ready = multiprocessing.connection.wait([connection for _, connection in running.values()])
            for index, (process, connection) in list(running.items()):
                if connection in ready:
                    del running[index]
                    results[index] = _received(process, connection)
    finally:
        for process, _ in running.values():
            process.kill()
    return [results[index] for index in range(len(functions))]


def _started(function: Callable[[], Any]) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(function, there), daemon=False)
    process.start()
    there.close()
    return process, here


def _run(function: Callable[[], Any], connection: Connection) -> None:
    try:
        message: tuple[bool, Any] = True, function()
    except UserError as exc:
        message = False, str(exc)
    connection.send(message)
    sys.stdout.flush()


def _received(process: Any, connection: Connection) -> Any:
    try:
        is_result, value = connection.recv()
    except EOFError:
        process.join()
        raise UserError(
            f"a process ended with the exit code {process.exitcode}, without a result. See above."
        ) from None
    process.join()
    if not is_result:
        raise UserError(value)
    return value
