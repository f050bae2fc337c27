"""The page: one HTML file, with the plotting library and, if wanted, all data in it."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from returnn.engine.report.run_record import SUFFIX
from returnn.view.options import differences
from returnn.view.run_files import files_of_run
from returnn.view.run_reader import RunReader

_HERE = Path(__file__).parent
_MAX_BYTES_OF_PICTURES = 50 * 1024**2  # of all runs together, in an exported page
PICTURE_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


def make_readers(folders: Sequence[str]) -> list[RunReader]:
    """
    :param folders: of runs
    :return: their readers, with the shortest names that tell them apart; a folder with several models has one for each
    """
    paths = [os.path.realpath(folder) for folder in dict.fromkeys(folders)]
    common = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    readers = []
    for path in dict.fromkeys(paths):
        records = files_of_run(path).records
        if len(records) > 1:
            readers += [RunReader(path, os.path.relpath(file, common).removesuffix(SUFFIX), file) for file in records]
        else:
            readers.append(RunReader(path, os.path.relpath(path, common)))
    return readers


def read_all(readers: Sequence[RunReader]) -> dict[str, Any]:
    """:return: what the page shows"""
    runs = [reader.read() for reader in readers]
    rows = differences([run.pop("options") for run in runs])
    return {"runs": runs, "differences": [{"name": name, "values": values} for name, values in rows]}


def page(data: Mapping[str, Any] | None = None) -> str:
    """
    :param data: see `read_all`; None: the page asks for it, again and again
    :return: HTML
    """
    text = (_HERE / "page.html").read_text("utf8")
    content = "null" if data is None else json.dumps(data, ensure_ascii=False, allow_nan=False)
    parts = {
        "uplot.css": (_HERE / "uplot.css").read_text("utf8"),
        "uplot.js": (_HERE / "uplot.js").read_text("utf8"),
        "uplot.LICENSE": (_HERE / "uplot.LICENSE").read_text("utf8"),
        "page.css": (_HERE / "page.css").read_text("utf8"),
        "page.js": (_HERE / "page.js").read_text("utf8"),
        # Within a script, "<" could end it.
        "data.json": content.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"),
    }
    head, *rest = text.split("{{")
    return head + "".join(parts[name] + tail for name, tail in (part.split("}}", 1) for part in rest))


def exported_page(readers: Sequence[RunReader]) -> tuple[str, list[str]]:
    """:return: the page with all data and pictures in it; and which pictures are not, as they are too large"""
    data = read_all(readers)
    left_out, num_bytes = [], 0
    for reader, run in zip(readers, data["runs"], strict=True):
        for picture in run["pictures"]:
            content = picture_content(reader, picture["id"])
            if content is None or num_bytes + len(content) > _MAX_BYTES_OF_PICTURES:
                left_out.append(picture["path"])
                continue
            num_bytes += len(content)
            kind = PICTURE_TYPES[os.path.splitext(picture["path"])[1]]
            picture["content"] = f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
        run["pictures"] = [picture for picture in run["pictures"] if "content" in picture]
        run["folder"] = os.path.basename(run["folder"])  # who gets the page need not know the others
    return page(data), left_out


def picture_content(reader: RunReader, key: str) -> bytes | None:
    """
    :param reader: of a run
    :param key: of one of its pictures
    :return: None if there is no such picture, or not any more
    """
    filename = reader.pictures.get(key)
    if filename is None:
        return None
    try:
        return Path(filename).read_bytes()
    except OSError:
        return None
