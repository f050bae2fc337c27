"""Runs other programs."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from typing import Any


def sys_exec_out(*args: str, **kwargs: Any) -> str:
    """
    :param args: program and its arguments
    :param kwargs: for `subprocess.run`
    :return: its output
    :raises subprocess.CalledProcessError: if it fails
    """
    output: str = subprocess.run(args, stdout=subprocess.PIPE, text=True, check=True, **kwargs).stdout
    return output


def sys_exec_ret_code(*args: str, **kwargs: Any) -> int:
    """
    :param args: program and its arguments
    :param kwargs: for `subprocess.run`
    :return: its exit status
    """
    return subprocess.run(args, check=False, **kwargs).returncode


def sys_cmd_out_lines(s: str) -> list[str]:
    """
    :param s: for the shell
    :return: lines of the output
    :raises subprocess.CalledProcessError: if it fails
    """
    return subprocess.run(s, shell=True, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def which(program: str) -> str | None:
    """:return: path of the program"""
    return shutil.which(program)


def which_pip() -> str:
    """:return: path of the pip of this Python"""
    return shutil.which("pip") or f"{sys.executable} -m pip"


def pip_check_is_installed(pkg_name: str) -> bool:
    """:return: whether the package is installed"""
    try:
        importlib.metadata.version(pkg_name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def pip_install(*pkg_names: str) -> None:
    """
    Installs packages into this Python. Only for demos and tools; the toolkit itself never does it.

    :raises subprocess.CalledProcessError: if it fails
    """
    subprocess.run([sys.executable, "-m", "pip", "install", *pkg_names], check=True)
