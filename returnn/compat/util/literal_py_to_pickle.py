"""Python literals as pickled data."""

from __future__ import annotations

import pickle

from returnn.util.files.literal import literal_eval

__all__ = ["literal_eval", "py_to_pickle"]


def py_to_pickle(s: str | bytes) -> bytes:
    """
    :param s: Python literal
    :return: its value, pickled
    """
    return pickle.dumps(literal_eval(s.decode("utf8") if isinstance(s, bytes) else s))
