"""Runs this process, or another program, anew: open files, the distribution's prefix, libraries loaded in front."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from returnn.util.native_code_compiler import NativeCodeCompiler

_PATCHED = "__RETURNN_ATFORK_PATCHED"


def is_valid_fd(fd: int) -> bool:
    """:return: whether it is an open file descriptor"""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def close_all_fds_except(except_fds: Collection[int]) -> None:
    """
    :param except_fds: all other file descriptors of this process are closed
    """
    open_fds = [int(name) for name in os.listdir("/proc/self/fd")] if os.path.isdir("/proc/self/fd") else None
    for fd in open_fds or range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
        if fd not in except_fds:
            with contextlib.suppress(OSError):
                os.close(fd)


def get_lsb_release() -> dict[str, str]:
    """:return: what the distribution says about itself, such as {"NAME": "Ubuntu", "VERSION_ID": "22.04"}"""
    info: dict[str, str] = {}
    for filename in ("/etc/os-release", "/etc/lsb-release"):
        if os.path.exists(filename):
            with open(filename, encoding="utf8") as file:
                pairs = (line.rstrip("\n").partition("=") for line in file if "=" in line)
                info.update({key: value.strip('"') for key, _, value in pairs})
    return info


def get_ubuntu_major_version() -> int | None:
    """:return: such as 22; None if it is another distribution"""
    info = get_lsb_release()
    name = info.get("DISTRIB_ID", info.get("NAME", ""))
    version = info.get("DISTRIB_RELEASE", info.get("VERSION_ID", ""))
    return int(version.partition(".")[0]) if name == "Ubuntu" and version[:1].isdigit() else None


def overwrite_os_exec(prefix_args: Sequence[str]) -> None:
    """
    From now on, `os.execv` and the like put something in front of the program that they run.

    :param prefix_args: such as ["/lib64/ld-linux-x86-64.so.2"]
    """
    execv, execve = os.execv, os.execve

    def new_execv(path: Any, args: Sequence[Any]) -> None:
        execv(prefix_args[0], [*prefix_args, path, *args[1:]])

    def new_execve(path: Any, args: Sequence[Any], env: Mapping[Any, Any]) -> None:
        execve(prefix_args[0], [*prefix_args, path, *args[1:]], env)

    os.execv, os.execve = new_execv, new_execve  # type: ignore[assignment]


def auto_prefix_os_exec_prefix_ubuntu(prefix_args: Sequence[str], ubuntu_min_version: int = 16) -> None:
    """
    :param prefix_args: see `overwrite_os_exec`, if they exist
    :param ubuntu_min_version: only if the distribution is an older Ubuntu
    """
    version = get_ubuntu_major_version()
    if version is not None and version < ubuntu_min_version and os.path.exists(prefix_args[0]):
        overwrite_os_exec(prefix_args)


def restart_returnn() -> None:
    """Runs this process anew, with the same arguments. Does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    close_all_fds_except({0, 1, 2})
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def get_patch_atfork_lib() -> str:
    """:return: a library that, loaded first, lets no other library register functions to call at a fork"""
    code = "int pthread_atfork(void (*a)(void), void (*b)(void), void (*c)(void)) { return 0; }\n"
    code += "int __register_atfork(void (*a)(void), void (*b)(void), void (*c)(void), void *d) { return 0; }\n"
    return NativeCodeCompiler("patch_atfork", code=code, is_cpp=False).get_lib_filename()


def maybe_restart_returnn_with_atfork_patch() -> None:
    """Runs this process anew with that library, if it does not have it. Some BLAS libraries would hang at a fork."""
    if os.environ.get(_PATCHED) == "1":
        return
    loaded = [path for path in os.environ.get("LD_PRELOAD", "").split(":") if path]
    os.environ["LD_PRELOAD"] = ":".join([get_patch_atfork_lib(), *loaded])
    os.environ[_PATCHED] = "1"
    restart_returnn()
