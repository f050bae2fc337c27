"""
The cache manager: a command `cf` of some sites, which copies a file from slow network storage to the local disk.

Data sets with the option `use_cache_manager` ask it for their files.
"""

from __future__ import annotations

import shutil
import subprocess

from returnn.util.errors import UserError
from returnn.util.system.warn_once import warn_once

_COMMAND = "cf"
_local_files: dict[str, str] = {}


def cf(filename: str) -> str:
    """
    :param filename: on slow storage
    :return: path of the local copy; `filename` itself where there is no such command
    :raises UserError: if the command fails
    """
    if filename not in _local_files:
        _local_files[filename] = _ask(filename)
    return _local_files[filename]


def _ask(filename: str) -> str:
    command = shutil.which(_COMMAND)
    if command is None:
        warn_once(f"Option 'use_cache_manager': there is no command {_COMMAND!r}, the files are used where they are.")
        return filename
    result = subprocess.run([command, filename], capture_output=True, text=True, check=False)
    local = result.stdout.strip()
    if result.returncode or not local:
        reason = (result.stderr.strip().splitlines() or ["it printed no file name"])[-1]
        raise UserError(f"The cache manager failed: {_COMMAND} {filename!r}: {reason}")
    return local
