"""`returnn view FOLDER...`: shows runs in a browser, or writes the page into a file."""

from __future__ import annotations

import argparse
import difflib
import os
import threading
import time
from collections.abc import Sequence

from returnn.engine.report.run_record import SUFFIX
from returnn.engine.run.interrupts import InterruptedRun, Interrupts
from returnn.log import log
from returnn.serve.http_service import HTML, Answer, HttpError, HttpService, Limits, Request, Route
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import write_atomic
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted
from returnn.view.page import PICTURE_TYPES, exported_page, make_readers, page, picture_content, read_all
from returnn.view.run_files import files_of_run, find_runs
from returnn.view.run_reader import RunReader

_POLL_S = 0.2
_SECONDS_BETWEEN_READS = 1.0


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(prog="returnn view", description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="of a run, or with folders of runs in it")
    parser.add_argument("--export", metavar="FILE", help="writes one HTML file with everything in it, and ends")
    parser.add_argument("--host", default="localhost", help="where it listens; '0.0.0.0' for all addresses")
    parser.add_argument("--port", type=int, default=12381, help="where it listens; 0: at a port that is free")
    return parser


def run(argv: Sequence[str]) -> int:
    """
    :param argv: arguments
    :return: exit status
    """
    args = make_parser().parse_args(argv)
    log.initialize()
    try:
        viewer = Viewer(args.folders)
        for folder in viewer.folders:
            if not any(files_of_run(path).have_a_run for path in find_runs(folder)):
                log.print_warning(f"in the folder {folder!r}, there is no run yet.")
        if args.export:
            export(viewer.readers, args.export)
        else:
            serve(viewer, host=args.host, port=args.port)
    except UserError as exc:
        log.print_error(f"error: {exc}")
        return 1
    return 0


def export(readers: Sequence[RunReader], filename: str) -> None:
    """
    :param readers: of runs
    :param filename: of the page
    :raises UserError: if it cannot be written
    """
    text, left_out = exported_page(readers)
    write_atomic(filename, text)
    print(f"wrote {filename!r}: {counted(len(readers), 'run')}, {len(text.encode('utf8')) / 1e6:.1f} MB")
    if left_out:
        print(f"it would get too large with {counted(len(left_out), 'more picture')}: {', '.join(left_out[:5])}")


def serve(viewer: Viewer, *, host: str, port: int) -> None:
    """
    Until a signal ends it.

    :param viewer: has the runs
    :param host: where it listens
    :param port: where it listens
    """
    limits = Limits(max_bytes=0, timeout_s=60.0)
    with (
        HttpService(host, port, viewer.routes(), limits=limits, option="options '--host' and '--port'") as http,
        Interrupts() as interrupts,
        http.running(),
    ):
        print(f"{counted(len(viewer.readers), 'run')}: {http.url} (Ctrl-C ends it)", flush=True)
        try:
            while True:
                interrupts.check(where="the last request")
                threading.Event().wait(_POLL_S)
        except InterruptedRun:
            print("ends")


def _hint_of_folder(path: str) -> str:
    """:return: where the run is, if this is a file, or the option `model` of a config; or a folder of a similar name"""
    parent, name = os.path.split(path.rstrip("/"))
    if os.path.isfile(path):
        return " It is a file. A run is in the folder of its option 'model'."
    if os.path.exists(path + SUFFIX):
        return f"\n  There is a run in the folder {parent or '.'!r}."
    near = difflib.get_close_matches(name, os.listdir(parent or ".") if os.path.isdir(parent or ".") else [])
    folders = [repr(path) for path in (os.path.join(parent, entry) for entry in near) if os.path.isdir(path)]
    return f"\n  Did you mean {' or '.join(folders)}?" if folders else ""


class Viewer:
    """What is asked of the page's server."""

    def __init__(self, folders: Sequence[str]) -> None:
        """
        :param folders: of runs, or with folders of runs in them
        :raises UserError: if one is not there
        """
        for folder in folders:
            if not os.path.isdir(folder):
                raise UserError(f"there is no folder {folder!r}.{_hint_of_folder(folder)}")
        self.folders = list(folders)
        self._lock = threading.Lock()
        self._last_read_s = float("-inf")
        self._data = Answer.of(None)
        self.readers: list[RunReader] = []
        self._find_runs()

    def routes(self) -> dict[str, Route]:
        """:return: by path"""
        return {
            "/": ("GET", lambda request: Answer(page().encode("utf8"), HTML)),
            "/data.json": ("GET", self._answer_data),
            "/picture": ("GET", self._answer_picture),
        }

    def _find_runs(self) -> None:
        """Runs that were there before are gone on with."""
        known = {(reader.folder, reader.record): reader for reader in self.readers}
        readers = make_readers([path for folder in self.folders for path in find_runs(folder)])
        for i, reader in enumerate(readers):
            before = known.get((reader.folder, reader.record))
            if before is not None:
                before.name = reader.name
                readers[i] = before
        self.readers = readers

    def _answer_data(self, request: Request) -> Answer:
        with self._lock:  # several browsers do not make it read more often
            if time.monotonic() > self._last_read_s + _SECONDS_BETWEEN_READS:
                self._find_runs()
                self._data = Answer.of(read_all(self.readers))
                self._last_read_s = time.monotonic()
            return self._data

    def _answer_picture(self, request: Request) -> Answer:
        key = request.query.get("id", "")
        with self._lock:
            for reader in self.readers:
                content = picture_content(reader, key)
                if content is not None:
                    return Answer(content, PICTURE_TYPES[os.path.splitext(reader.pictures[key])[1]])
        raise HttpError(404, f"there is no picture {key[:50]!r}.")
