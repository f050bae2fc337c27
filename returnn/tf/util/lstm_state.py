"""The state of an LSTM, as user code sees it."""

from __future__ import annotations

from typing import Any, NamedTuple


class LSTMStateTuple(NamedTuple):
    """State of an LSTM, (B, F) each; or the sizes of that."""

    c: Any
    h: Any
