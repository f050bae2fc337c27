"""
What the toolkit tells the user: `print(..., file=log.v3)`.

There are five levels, `log.v1` (errors and results) to `log.v5` (details for debugging). A target of the log shows
everything up to its verbosity. Targets are "stdout", a file, or "|command" which gets the log on its standard input.
The options of a config are `log`, `log_verbosity` and `log_format`, each of them one value or a list with an entry
per target. Until the log is initialized, everything goes to stdout.
"""

from __future__ import annotations

import contextlib
import logging
import os
import string
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Any, Protocol, TextIO

from returnn.util.errors import ConfigError, check_known
from returnn.util.system.live_line import live_line
from returnn.util.system.warn_once import warn_deprecated, warn_once

DEFAULT_VERBOSITY = 3
_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)  # of v1 to v5
_FORMATS = {
    "default": "%(message)s",
    "raw": "%(message)s",
    "timed": "%(asctime)s %(message)s",
    "verbose": "%(levelname)s - %(asctime)s %(message)s",
}
_start_time = time.gmtime()


class LogOptions(Protocol):
    """What `Log.init_by_config` asks of a config."""

    @property
    def options(self) -> Any:
        """The values of all options."""


class _Unfinished(threading.local):
    """What a thread has written of a line, so that threads which print at the same time do not share one."""

    text = ""


class Stream:
    """A text stream which gives each complete line to a logger."""

    def __init__(self, log: logging.Logger, lvl: int):
        """
        :param log: gets the lines
        :param lvl: level of the lines, as in `logging`
        """
        self.unfinished = _Unfinished()
        self.log = log
        self.lvl = lvl
        self.lock = threading.RLock()

    def write(self, msg: str) -> int:
        """Lines without an end are kept until it comes, or until `flush`."""
        with self.lock:
            *lines, self.unfinished.text = (self.unfinished.text + msg).split("\n")
            for line in lines:
                self.log.log(self.lvl, "%s", line)
        return len(msg)

    def flush(self) -> None:
        """Writes also a line of this thread that has no end yet."""
        with self.lock:
            rest, self.unfinished.text = self.unfinished.text, ""
            if rest:
                self.log.log(self.lvl, "%s", rest)
            for handler in self.log.handlers:
                handler.flush()


class StreamDummy:
    """A stream that drops everything."""

    def write(self, msg: str) -> int:
        """Does nothing."""
        return len(msg)

    def flush(self) -> None:
        """Does nothing."""


class StreamThreadLocal(threading.local):
    """A stream that keeps for each thread what that thread writes."""

    def __init__(self) -> None:
        self.buf = StringIO()

    def write(self, msg: str) -> int:
        """Adds to the buffer of this thread."""
        return self.buf.write(msg)

    def flush(self) -> None:
        """Nothing is waiting anywhere."""


class _FileHandler(logging.FileHandler):
    """Writes to a file as long as that is possible: a full disk is said once, and not at each line."""

    _has_failed = False

    def flush(self) -> None:
        """Writes what waits."""
        try:
            super().flush()
        except OSError:
            self._say_once()

    def handleError(self, record: logging.LogRecord) -> None:
        """Is called within the handling of the error."""
        self._say_once()

    def _say_once(self) -> None:
        if not self._has_failed:
            self._has_failed = True
            _say(f"WARNING: the log file {self.baseFilename!r} cannot be written: {_reason()}. The run goes on.")


class StdoutHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to what `sys.stdout` is at that moment, so that somebody can redirect it later on."""

    _has_failed = False

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        """:return: stdout"""
        return sys.stdout

    def emit(self, record: logging.LogRecord) -> None:
        """Writes in place of the live line."""
        live_line.clear()
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """
        Is called within the handling of the error. A terminal or disk that is gone is no reason to end.

        :raises BrokenPipeError: if who reads has ended, as with `| head`; the process ends then, as others do
        """
        if isinstance(sys.exc_info()[1], BrokenPipeError):
            raise
        if not self._has_failed:
            self._has_failed = True
            _say(f"WARNING: the output cannot be written: {_reason()}. The run goes on.")


def _reason() -> str:
    error = sys.exc_info()[1]
    return getattr(error, "strerror", None) or str(error)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


class _PipeHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to the standard input of a command."""

    def __init__(self, command: str):
        self.process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, text=True)
        super().__init__(self.process.stdin)

    def close(self) -> None:
        """Lets the command see the end of its input, and waits for it."""
        self.process.communicate()
        super().close()


class Log:
    """The log of the process. There is one, `log` of this module."""

    def __init__(self) -> None:
        self.initialized = False
        self.filename: str | None = None
        self.verbose = [True] * 6
        self.v: Stream | StreamThreadLocal | TextIO = sys.stdout
        self.v1: Stream | StreamDummy | TextIO
        self.v2: Stream | StreamDummy | TextIO
        self.v3: Stream | StreamDummy | TextIO
        self.v4: Stream | StreamDummy | TextIO
        self.v5: Stream | StreamDummy | TextIO
        self.logger = logging.getLogger("returnn")
        self.logger.propagate = False
        self._add_handler(StdoutHandler(), 5, "default")
        self._make_streams()

    def initialize(
        self,
        logs: Sequence[str] | None = None,
        verbosity: Sequence[int] | None = None,
        formatter: Sequence[str] | None = None,
        propagate: bool = False,
    ) -> None:
        """
        :param logs: targets: "stdout", "|command", or a file, which is appended to; `$date` in its name is the time
            when the process started
        :param verbosity: of each target, 1 to 5, or 0 for nothing; the last one goes for all that follow
        :param formatter: of each target, see `_FORMATS`, or a template as in `logging`
        :param propagate: whether the loggers above, of Python's `logging`, get the lines too
        :raises ConfigError: if a target cannot be opened
        """
        targets = list(logs or ["stdout"])
        verbosities = _extend(verbosity or [DEFAULT_VERBOSITY], len(targets))
        formatters = _extend(formatter or ["default"], len(targets))
        self._remove_handlers()
        self.logger.propagate = propagate
        self.initialized = True
        for target, target_verbosity, target_format in zip(targets, verbosities, formatters, strict=True):
            self._add_handler(self._open(target), target_verbosity, target_format)
        self.verbose = [level <= max(verbosities, default=0) for level in range(6)]
        self._make_streams()

    def init_by_config(self, config: LogOptions, *, process: int = 0) -> None:
        """
        :param config: with the options `log`, `log_verbosity`, `log_format`
        :param process: number of this process, if there are several. Others than the first one write only to files,
            of their own: "train.log.process1"; errors are shown by all
        """
        options = config.options
        logs = [
            target for target in options.log or () if not isinstance(target, Log)
        ]  # imported by the config as "log"
        if not process:
            self.initialize(logs=logs, verbosity=options.log_verbosity, formatter=options.log_format)
            return
        targets = logs or ["stdout"]
        kept = [i for i, target in enumerate(targets) if target != "stdout" and not target.startswith("|")]
        verbosities = _extend(options.log_verbosity or [DEFAULT_VERBOSITY], len(targets))
        formatters = _extend(options.log_format or ["default"], len(targets))
        self.initialize(
            logs=[f"{targets[i]}.process{process}" for i in kept] or ["stdout"],
            verbosity=[verbosities[i] for i in kept] or [0],
            formatter=[formatters[i] for i in kept] or ["default"],
        )

    @property
    def is_on_terminal(self) -> bool:
        """Whether stdout gets at least errors and results, `v1`."""
        return any(isinstance(x, StdoutHandler) and x.level <= _LEVELS[0] for x in self.logger.handlers)

    def print_warning(self, text: str, prefix_text: str = "WARNING:", extra_text: str | None = None) -> None:
        """
        :param text: is printed once in this process
        :param prefix_text: before it
        :param extra_text: a further line
        """
        warn_once(text, prefix=prefix_text, extra_text=extra_text)

    def print_deprecation_warning(self, text: str, behavior_version: int | None = None) -> None:
        """
        :param text: what is old, and what to use now; printed once in this process
        :param behavior_version: from which on it is an error
        """
        warn_deprecated(text, behavior_version=behavior_version)

    def print_error(self, text: str) -> None:
        """
        :param text: why the run ends; goes to stderr, and into all files of the log
        """
        self.flush()
        live_line.clear()
        print(text, file=sys.stderr)
        record = logging.LogRecord(self.logger.name, logging.CRITICAL, "", 0, text, None, None)
        for handler in self.logger.handlers:
            if not isinstance(handler, StdoutHandler):
                handler.handle(record)

    def flush(self) -> None:
        """Writes everything that still waits for the end of its line."""
        for stream in (self.v1, self.v2, self.v3, self.v4, self.v5):
            stream.flush()

    def _open(self, target: str) -> logging.Handler:
        if target == "stdout":
            return StdoutHandler()
        if target.startswith("|"):
            return _PipeHandler(target[1:].strip())
        self.filename = string.Template(target).safe_substitute(date=time.strftime("%Y%m%d-%H%M%S", _start_time))
        folder = os.path.dirname(self.filename) or "."
        try:
            return _FileHandler(self.filename, encoding="utf8")
        except OSError as exc:
            raise ConfigError(
                f"option 'log': cannot write the file {self.filename!r}: {exc.strerror}.\n"
                f"  The folder {folder!r} has to be there. Possible: 'stdout', '|command', a file."
            ) from exc

    def _add_handler(self, handler: logging.Handler, verbosity: int, formatter: str) -> None:
        verbosity = min(max(verbosity, 0), 5)
        if "%(" not in formatter:
            check_known("log format", formatter, _FORMATS, where="option 'log_format'")
        handler.setLevel(_LEVELS[verbosity - 1] if verbosity else logging.CRITICAL + 1)
        handler.setFormatter(logging.Formatter(_FORMATS.get(formatter, formatter), datefmt="%Y-%m-%d,%H:%M:%S"))
        self.logger.addHandler(handler)

    def _remove_handlers(self) -> None:
        for handler in list(self.logger.handlers):
            self.logger.removeHandler(handler)
            handler.close()

    def _make_streams(self) -> None:
        self.logger.setLevel(logging.DEBUG)
        streams = [
            Stream(self.logger, level) if self.verbose[i + 1] else StreamDummy() for i, level in enumerate(_LEVELS)
        ]
        self.v1, self.v2, self.v3, self.v4, self.v5 = streams
        self.v = StreamThreadLocal()


def _extend(values: Sequence[Any], length: int) -> list[Any]:
    """:return: that many values; the last one is repeated"""
    return [values[min(index, len(values) - 1)] for index in range(length)]


log = Log()


@contextlib.contextmanager
def wrap_log_streams(
    alternative_stream: TextIO | StreamDummy,
    also_sys_stdout: bool = False,
    tf_log_verbosity: int | str | None = None,
) -> Iterator[None]:
    """
    Inside of this context, everything that is logged goes elsewhere.

    :param alternative_stream: gets it
    :param also_sys_stdout: whether stdout goes there too
    :param tf_log_verbosity: level of TensorFlow's own log meanwhile, as in `logging`
    """
    tf_logger = logging.getLogger("tensorflow")
    tf_level = tf_logger.level
    with contextlib.ExitStack() as stack:
        for name in ("v", "v1", "v2", "v3", "v4", "v5"):
            stack.enter_context(_replaced(log, name, alternative_stream))
        stack.enter_context(_replaced(log.logger, "handlers", [logging.StreamHandler(alternative_stream)]))
        if also_sys_stdout:
            stack.enter_context(_replaced(sys, "stdout", alternative_stream))
        if tf_log_verbosity is not None:
            tf_logger.setLevel(tf_log_verbosity)
            stack.callback(tf_logger.setLevel, tf_level)
        yield


@contextlib.contextmanager
def _replaced(obj: object, name: str, value: object) -> Iterator[None]:
    """Sets an attribute for as long as the context lasts."""
    old = getattr(obj, name)
    setattr(obj, name, value)
    try:
        yield
    finally:
        setattr(obj, name, old)
