"""Parsers of XML, for the names of encodings that files of RASR have."""

from __future__ import annotations

import codecs
import re
from xml.etree import ElementTree
from xml.parsers.expat import ErrorString

_DECLARED = re.compile(rb"\s*<\?xml\b[^>]*\bencoding\s*=\s*[\"']([\w.-]+)[\"']")


def xml_parser(start: bytes) -> ElementTree.XMLParser:
    """
    :param start: of a file, with its first line
    :return: parser, also if UTF-8 is called "utf8", a name which Python's own does not know
    """
    declared = _DECLARED.match(start)
    try:
        is_utf8 = declared is not None and codecs.lookup(declared.group(1).decode()).name == "utf-8"
    except LookupError:
        is_utf8 = False
    return ElementTree.XMLParser(encoding="utf-8" if is_utf8 else None)


def where_and_what(exc: ElementTree.ParseError) -> str:
    """:return: for messages, behind the name of the file"""
    line, column = exc.position
    return f", line {line}: {ErrorString(exc.code)}, in column {column}."
