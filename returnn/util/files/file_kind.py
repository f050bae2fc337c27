"""What a file is that should be a text, and is none: for messages."""

from __future__ import annotations

import os

_BY_FIRST_BYTES = {
    b"PK\x03\x04": "a zip archive",
    b"\x89HDF": "an HDF file",
    b"\x1f\x8b": "one that is compressed by gzip; then its name has to end with .gz",
    b"RIFF": "audio",
    b"OggS": "audio",
    b"fLaC": "audio",
    b"\xff\xfe": "UTF-16. Convert it: `iconv -f utf-16 -t utf-8`",
    b"\xfe\xff": "UTF-16. Convert it: `iconv -f utf-16 -t utf-8`",
}
_OF_CHECKPOINTS = (".index", ".meta", ".pt", ".npz", ".safetensors")


def kind_of_binary(head: bytes) -> str | None:
    """
    :param head: the first bytes of a file
    :return: what it is, for people; None if it may be a text in another encoding
    """
    return known_kind(head) or ("a binary file" if b"\0" in head else None)


def known_kind(head: bytes) -> str | None:
    """
    :param head: the first bytes of a file
    :return: what it is, for people; None if these bytes do not say
    """
    return next((kind for begin, kind in _BY_FIRST_BYTES.items() if head.startswith(begin)), None)


def is_checkpoint(filename: str) -> bool:
    """:return: whether it looks like a file with parameters, or the name of several without their suffixes"""
    if os.path.isdir(filename):
        return False
    is_named = filename.endswith(_OF_CHECKPOINTS) or ".data-00000-of-" in filename
    return is_named or (not os.path.exists(filename) and any(os.path.exists(filename + end) for end in _OF_CHECKPOINTS))
