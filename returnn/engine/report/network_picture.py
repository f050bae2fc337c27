"""`MODEL.network.svg`: what is trained, as a picture for `returnn view`."""

from __future__ import annotations

import os
from collections.abc import Callable

from returnn.config import Config
from returnn.log import log
from returnn.util.files.atomic_file import write_atomic

SUFFIX = ".network.svg"


class NetworkPicture:
    """Writes the picture. A training goes on without it."""

    def __init__(self, filename: str | None) -> None:
        """:param filename: None: nothing is written"""
        self.filename = filename

    @classmethod
    def of_training(cls, config: Config) -> NetworkPicture:
        """:return: beside the model files; of nothing, if there are none, or if the option `network_picture` is off"""
        options = config.options
        is_wanted = bool(options.model) and options.network_picture and not options.dry_run
        return cls(f"{options.model}{SUFFIX}" if is_wanted else None)

    def update(self, draw: Callable[[], str | None]) -> None:
        """
        Writes the picture, unless the file is like that already.

        :param draw: the content, as SVG, or None for none. It looks into layers of users, so it may fail in any way
        """
        if not self.filename:
            return
        try:
            content = draw()
            if content is not None and content != _content_of(self.filename):
                write_atomic(self.filename, content)
        except Exception as exc:  # noqa: BLE001 (whatever it is, a training goes on)
            print(f"no picture {self.filename!r}: {type(exc).__name__}: {exc}", file=log.v5)


def _content_of(filename: str) -> str | None:
    if not os.path.exists(filename):
        return None
    with open(filename, encoding="utf8") as file:
        return file.read()
