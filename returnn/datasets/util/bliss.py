"""
Bliss corpus files: XML with recordings, their segments, and what is said in them.

    <corpus name="c"><recording name="r" audio="r.wav"><segment name="1" start="0" end="2.5"><orth>hello</orth>...

The name of a segment in full is `c/r/1`. Files can be gzipped, and include other ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from xml.etree import ElementTree

from returnn.util.errors import UserError
from returnn.util.files.text_file import open_maybe_gzip
from returnn.util.files.xml_parser import where_and_what, xml_parser


@dataclass(frozen=True)
class BlissSegment:
    """A piece of a recording."""

    name: str  # in full: corpus/recording/segment
    audio: str | None  # as it is written in the file
    start: float  # in seconds
    end: float | None  # in seconds, None: to the end of the recording
    orth: str


_FIRST_LINE = 200  # bytes


def is_bliss_file(filename: str) -> bool:
    """
    :return: whether it is XML, and not lines of text
    :raises UserError: if it cannot be opened
    """
    with open_maybe_gzip(filename) as file:
        try:
            start = file.read(1000).removeprefix(b"\xef\xbb\xbf").lstrip()
        except (OSError, EOFError) as exc:
            raise UserError(f"Cannot read the file {filename!r}: {exc}") from exc
    return start.startswith((b"<?xml", b"<corpus"))


def iter_bliss(filename: str) -> Iterator[BlissSegment]:
    """
    Goes through a file that may be large.

    :raises UserError: if it is no such XML
    """
    with open_maybe_gzip(filename) as file:
        try:
            yield from _iter_segments(file, filename)
        except ElementTree.ParseError as exc:
            raise UserError(f"Bliss file {filename!r}{where_and_what(exc)}") from exc
        except (OSError, EOFError) as exc:
            raise UserError(f"Cannot read the file {filename!r}: {exc}") from exc


def _iter_segments(file: BufferedReader, filename: str) -> Iterator[BlissSegment]:
    path: list[ElementTree.Element] = []
    position = 0  # of the segment in its recording, from 1
    parser = xml_parser(file.peek(_FIRST_LINE))
    for event, element in ElementTree.iterparse(file, events=("start", "end"), parser=parser):
        if event == "start":
            path.append(element)
            position = 0 if element.tag == "recording" else position
            continue
        path.pop()
        if element.tag == "segment":
            position += 1
            yield _segment(element, path, position, filename)
        elif element.tag == "include":
            yield from iter_bliss(os.path.join(os.path.dirname(filename), _attribute(element, "file", filename)))
        if element.tag in ("segment", "recording", "include") and path:
            path[-1].remove(element)  # so that memory does not grow with the file


def _segment(
    element: ElementTree.Element, path: list[ElementTree.Element], position: int, filename: str
) -> BlissSegment:
    recording = path[-1] if path else element
    names = [_attribute(parent, "name", filename) for parent in path]
    name = element.get("name") or str(position)
    orth = element.find("orth")
    return BlissSegment(
        name="/".join([*names, name]),
        audio=recording.get("audio"),
        start=_seconds(element, "start", filename) or 0.0,
        end=_seconds(element, "end", filename),
        orth=" ".join("".join(orth.itertext()).split()) if orth is not None else "",
    )


def _seconds(element: ElementTree.Element, name: str, filename: str) -> float | None:
    value = element.get(name)
    if value is None or value == "inf":
        return None
    try:
        return float(value)
    except ValueError as exc:
        segment = element.get("name")
        raise UserError(f"Bliss file {filename!r}, segment {segment!r}: {name}={value!r} is no number.") from exc


def _attribute(element: ElementTree.Element, name: str, filename: str) -> str:
    value = element.get(name)
    if value is None:
        raise UserError(f"Bliss file {filename!r}: an element '{element.tag}' has no attribute {name!r}.")
    return value
