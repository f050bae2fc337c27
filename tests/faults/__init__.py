"""Faults of the operating system, done to real processes."""

import functools
import os
import shutil
import subprocess
import tempfile

import pytest

FOLDER = os.path.dirname(os.path.abspath(__file__))


@functools.cache
def _library() -> str:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler for the library that makes file calls fail")
    library = os.path.join(tempfile.mkdtemp(prefix="faults"), "faults.so")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-w", "-o", library, os.path.join(FOLDER, "faults.c"), "-ldl"], check=True
    )
    return library


def faulty_environment(rules_file) -> dict[str, str]:
    """
    :param rules_file: the rules of `faults.c`, may change while the process runs
    :return: environment variables for the process
    """
    return {"LD_PRELOAD": _library(), "FAULT_RULES": str(rules_file)}
