"""
`MODEL.run.jsonl`: what happened to a model, for `returnn view`. Each line is a JSON object, and lines are only added.

Each has `event` and `time` (seconds since 1970), and beside that:

- "start" of a training: `version`, `pid`, `host`, `epoch` (which comes first), `num_epochs`, `options` of the config
- "epoch" is trained: `epoch`, `learning_rate`, `scores` by name, `duration_s`, `data_wait_s` (of it, spent waiting for
  data), `num_steps`, `num_seqs`, `memory_bytes` (most that the process ever had)
- "end" of a training: `error`, a text, unless it was a good one
- "search": `epoch`, `options` of the command line, which say of which data and how, `scores`, lines for people, and
  `samples`: `tag`, `hypothesis`, `reference`
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import resource
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from returnn.config import Config
from returnn.config.options import Options
from returnn.log import log
from returnn.util.numbers.json_value import json_value
from returnn.util.system.version import describe_returnn_version
from returnn.util.texts.counted import counted

SUFFIX = ".run.jsonl"
_MAX_SAMPLES = 50
_MAX_CHARACTERS_OF_OPTION = 50_000
_MAX_CHARACTERS_OF_OBJECT = 200
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object, another one in each process


class RunRecord:
    """Adds lines. A run goes on without them: what cannot be written is said once."""

    def __init__(self, filename: str | None, command_line: str = "") -> None:
        """
        :param filename: None: nothing is written
        :param command_line: its options, for people
        """
        self.filename = filename
        self._command_line = command_line

    def write(self, event: str, **fields: Any) -> None:
        """
        :param event: what happened
        :param fields: more about it
        """
        if not self.filename:
            return
        line = json.dumps({"event": event, "time": round(time.time(), 3), **json_value(fields)}, ensure_ascii=False)
        try:
            file = os.open(self.filename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(file, f"{line}\n".encode("utf8", errors="replace"))  # at once, whoever else writes
            finally:
                os.close(file)
        except OSError as exc:
            log.print_warning(f"no more lines for 'returnn view': cannot write {self.filename!r}: {exc.strerror}.")
            self.filename = None

    @contextlib.contextmanager
    def of_training(self, config: Config, *, epoch: int, num_epochs: int) -> Iterator[None]:
        """
        The context of a training, which writes its start and its end.

        :param config: its options are written
        :param epoch: which comes first
        :param num_epochs: the last one
        """
        self.write(
            "start",
            version=describe_returnn_version() if self.filename else "",
            pid=os.getpid(),
            host=platform.node(),
            epoch=epoch,
            num_epochs=num_epochs,
            options=_options(config) if self.filename else {},
        )
        try:
            yield
        except BaseException as exc:
            self.write("end", error=f"{type(exc).__name__}: {exc}")
            raise
        self.write("end")

    def write_epoch(self, epoch: int, **fields: Any) -> None:
        """
        :param epoch: is over
        :param fields: what is known about it
        """
        memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.write("epoch", epoch=epoch, memory_bytes=memory_bytes, **fields)

    def write_search(
        self,
        epoch: int | None,
        hypotheses: Mapping[str, str],
        references: Mapping[str, str],
        scores: Sequence[str],
    ) -> None:
        """
        :param epoch: of the model
        :param hypotheses: by tag
        :param references: by tag
        :param scores: lines for people
        """
        samples = [
            {"tag": tag, "hypothesis": text, "reference": references[tag]}
            for tag, text in list(hypotheses.items())[:_MAX_SAMPLES]
        ]
        self.write("search", epoch=epoch, options=self._command_line, scores=list(scores), samples=samples)


def run_record(config: Config) -> RunRecord:
    """:return: beside the model files; of nothing, if there are none"""
    model = config.options.model
    is_wanted = bool(model) and not config.options.dry_run and os.path.isdir(os.path.dirname(model) or ".")
    names = sorted(config.command_line_options - {"task", "load_config"})
    values = (f"++{name} {config.opt_typed_value(name)}"[:_MAX_CHARACTERS_OF_OBJECT] for name in names)
    further_files = map(os.path.basename, config.files[1:])  # searches often differ by these alone
    return RunRecord(f"{model}{SUFFIX}" if is_wanted else None, " ".join([*further_files, *values]))


def _options(config: Config) -> dict[str, Any]:
    """:return: options as JSON has them; functions and other objects as texts"""
    options = {}
    for name in sorted(config.option_names()):
        given = config.typed_dict[name] if config.is_typed(name) else config.dict.get(name)
        if name.startswith("_") or isinstance(given, ModuleType) or (callable(given) and not hasattr(Options, name)):
            continue  # what the code of the config uses
        value = _plain(given)
        text = json.dumps(value)
        is_long = len(text) > _MAX_CHARACTERS_OF_OPTION
        options[name] = (
            f"{counted(len(text), 'character')}, checksum {zlib.crc32(text.encode()):08x}" if is_long else value
        )
    return options


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return json_value(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if callable(value):
        return f"function {getattr(value, '__qualname__', type(value).__name__)}"
    return _ADDRESS.sub("", repr(value))[:_MAX_CHARACTERS_OF_OBJECT]
