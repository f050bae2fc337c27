"""Local copies of files on a cluster, made by a program named `cf`, where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess

from returnn.log import log

_copies: dict[str, str] = {}


def cf(filename: str) -> str:
    """
    :param filename: of a file, maybe on a slow disk
    :return: of its local copy; the same name if there is no program `cf`, or it fails
    """
    program = shutil.which("cf")
    if program is None:
        return filename
    if filename not in _copies:
        _copies[filename] = _make_copy(program, filename)
    return _copies[filename]


def _make_copy(program: str, filename: str) -> str:
    result = subprocess.run([program, filename], capture_output=True, text=True, check=False)
    copy = result.stdout.strip()
    if result.returncode == 0 and os.path.exists(copy):
        return copy
    print(f"cf {filename} failed, reading the file itself: {result.stderr.strip()}", file=log.v2)
    return filename
