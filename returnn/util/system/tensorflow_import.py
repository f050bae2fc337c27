"""
`import tensorflow`, quick and quiet.

It imports all of Keras, with matplotlib, which takes a third of its time, and which few need: here, it does so when
`tf.keras` is used first. And it says things that nobody asked for, on stderr, from its C++ code, which does not look at
TF_CPP_MIN_LOG_LEVEL yet: here they are left out, and all else that is written to stderr meanwhile goes on.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence

from returnn.util.python.around_import import import_within

_PACKAGE = "tensorflow"
_KERAS_VARIABLE = "TF_USE_LEGACY_KERAS"
_LEVEL_VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
_ALL_LEVELS = "IWEF"  # info, warnings, errors, fatal errors
_NOISE = [  # which has no level, or a wrong one
    "^WARNING: All log messages before absl::InitializeLog",
    "^To enable the following instructions: .* rebuild TensorFlow",
    "Unable to register cu[A-Z]+ (plugin )?factory",
    "computation placer already registered",
]


def make_tensorflow_import_quick() -> None:
    """From now on, `import tensorflow` waits for no Keras, and writes no log below TF_CPP_MIN_LOG_LEVEL."""
    import_within(_PACKAGE, _quick_and_quiet)


@contextlib.contextmanager
def stderr_without(patterns: Sequence[str]) -> Iterator[None]:
    """
    Leaves out lines that this process, also its C code, writes to stderr.

    A process of its own hands on the other ones, so that the last words of a crash are not lost.

    :param patterns: extended regular expressions, as grep knows them
    """
    if not shutil.which("grep"):
        yield
        return
    try:
        saved = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    try:
        with _grep(patterns, saved) as grep:
            sys.stderr.flush()
            os.dup2(grep.stdin.fileno(), 2)  # type: ignore[union-attr]
            try:
                yield
            finally:
                sys.stderr.flush()
                os.dup2(saved, 2)
    finally:
        os.close(saved)


def noise_of_import() -> list[str]:
    """:return: what is left out, as extended regular expressions; nothing if TF_CPP_MIN_LOG_LEVEL is 0 or not there"""
    text = os.environ.get(_LEVEL_VARIABLE, "0")
    levels = _ALL_LEVELS[: min(int(text), len(_ALL_LEVELS) - 1)] if text.isdigit() else ""
    if not levels:
        return []
    return [f"^[{levels}][0-9]{{4}} ", f"^[-0-9]{{10}} [.:0-9]+: [{levels}] ", *_NOISE]


def _grep(patterns: Sequence[str], stdout: int) -> subprocess.Popen[bytes]:
    command = ["grep", "-a", "--line-buffered", "-v", "-E", "|".join(f"({pattern})" for pattern in patterns)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, start_new_session=True)


@contextlib.contextmanager
def _quick_and_quiet() -> Iterator[None]:
    noise = noise_of_import()
    with _later_keras(), stderr_without(noise) if noise else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def _later_keras() -> Iterator[None]:
    """
    TensorFlow imports at once what its variable names: the old Keras, if it is asked for. That is not there, and
    which one `tf.keras` means is decided at its first use. Who sets the variable, or has the old Keras, gets that.
    """
    if _KERAS_VARIABLE in os.environ or importlib.util.find_spec("tf_keras") is not None:
        yield
        return
    os.environ[_KERAS_VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[_KERAS_VARIABLE]
