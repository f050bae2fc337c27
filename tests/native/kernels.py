"""Compiled kernels for tests, each level of the CPU on its own."""

from __future__ import annotations

import functools

import pytest

from returnn.native.build import KernelCompiler, all_levels, cpu_level
from returnn.native.library import Library
from returnn.util.errors import UserError

LEVELS = all_levels()


@functools.cache
def _library(level: str) -> Library | str:
    if LEVELS.index(level) > LEVELS.index(cpu_level()):
        return f"this CPU has no {level}"
    try:
        return Library(KernelCompiler("kernels", levels=[level]).get_lib_filename())
    except UserError as exc:
        return str(exc)


def library(level: str | None = None) -> Library:
    """
    :param level: of the CPU. Default: the best one
    :return: all kernels; the test is skipped if there are none
    """
    found = _library(level or cpu_level())
    if isinstance(found, str):
        pytest.skip(found)
    return found
