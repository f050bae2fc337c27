"""Environment variables, and shell expressions with them."""

from __future__ import annotations

import contextlib
import os
import string
import subprocess
from collections.abc import Iterator


def expand_env_vars(s: str) -> str:
    """
    :param s: with `$VAR` or `${VAR}`, and `~` at its start
    :return: with their values; variables that are not set stay as they are
    """
    return os.path.expanduser(string.Template(s).safe_substitute(os.environ))


def eval_shell_env(token: str) -> str:
    """:return: the value if this is `$VAR`, otherwise the token as it is"""
    return os.environ.get(token[1:], "") if token.startswith("$") else token


def eval_shell_str(s: str) -> list[str]:
    """
    :param s: e.g. "a $VAR 'b c'"
    :return: the words as a shell sees them, where it also runs commands in backticks
    """
    script = f'for word in {s}; do printf "%s\\0" "$word"; done'
    result = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    return result.stdout.split("\0")[:-1]


@contextlib.contextmanager
def override_env_var(var_name: str, value: str) -> Iterator[None]:
    """The environment variable has this value inside of the context."""
    before = os.environ.get(var_name)
    os.environ[var_name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(var_name, None)
        else:
            os.environ[var_name] = before


def cleanup_env_var_path(env_var: str, path_prefix: str) -> None:
    """
    Removes entries from a variable such as `PATH` or `LD_LIBRARY_PATH`.

    :param env_var: name of the variable
    :param path_prefix: entries that start with it are removed
    """
    entries = os.environ.get(env_var, "").split(":")
    os.environ[env_var] = ":".join(entry for entry in entries if not entry.startswith(path_prefix))


# Options that old configs look at, of a framework that is not used any more: "floatX=float32,device=gpu".
_THEANO_FLAGS = os.environ.get("THEANO_FLAGS", "").split(",")
TheanoFlags = dict(flag.split("=", 1) for flag in _THEANO_FLAGS if "=" in flag)
