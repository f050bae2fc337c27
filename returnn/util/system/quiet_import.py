"""
`import tensorflow` says things that nobody asked for, on stderr, from its C++ code, which does not look at
TF_CPP_MIN_LOG_LEVEL yet. Here they are left out, and all else that is written to stderr meanwhile goes on.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

_PACKAGE = "tensorflow"
_LEVEL_VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
_ALL_LEVELS = "IWEF"  # info, warnings, errors, fatal errors
_NOISE = [  # which has no level, or a wrong one
    "^WARNING: All log messages before absl::InitializeLog",
    "^To enable the following instructions: .* rebuild TensorFlow",
    "Unable to register cu[A-Z]+ (plugin )?factory",
    "computation placer already registered",
]


def make_tensorflow_import_quiet() -> None:
    """From now on, `import tensorflow` writes no log below the level of TF_CPP_MIN_LOG_LEVEL."""
    if _PACKAGE not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


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


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow as it would be found otherwise, and has it loaded quietly."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _PACKAGE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None and noise_of_import():
            spec.loader = _QuietLoader(spec.loader)
        return spec


class _QuietLoader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        with stderr_without(noise_of_import()):
            self._loader.exec_module(module)
