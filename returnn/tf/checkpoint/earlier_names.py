"""
Parameters of cells in checkpoints of earlier versions of TensorFlow, which named the same values otherwise.

| name now | also |
| --- | --- |
| `rec/lstm_cell/kernel` | `rec/rnn/lstm_cell/kernel`: loops of TensorFlow 1 put their cell into a scope |
| `.../kernel`, `.../bias` of a cell | `.../weights`, `.../biases`, before TensorFlow 1.2 |
| `rec/lstm_fused_cell/...` | `rec/lstm_block_wrapper/...`, up to TensorFlow 1.4 |
| `rec/cudnn_compatible_lstm_cell/...` | the same in `rec/cudnn/params_canonical/rnn/multi_rnn_cell/cell_0/` |
"""

from __future__ import annotations

import re
from collections.abc import Collection

_CELL = re.compile(
    r"(?P<before>(?:.*?/)??)"
    r"(?:cudnn/params_canonical/)?(?:rnn/)?(?P<stack>multi_rnn_cell/cell_0/)?"
    r"(?P<cell>(?:\w+_)?cell|lstm_block_wrapper)/"
    r"(?P<part>(?:gates|candidate|projection)/)?(?P<param>kernel|bias|weights|biases|w_[ifo]_diag)"
)
_CELLS = {"lstm_block_wrapper": "lstm_fused_cell"}
_PARAMS = {"weights": "kernel", "biases": "bias"}


def by_names_of_today(in_checkpoint: Collection[str]) -> dict[str, str]:
    """
    :param in_checkpoint: names of its values
    :return: name of today -> name in the checkpoint; of values that have no other name, or whose name of today another
        one has, the name itself
    """
    names = {name: name for name in in_checkpoint}
    for name in in_checkpoint:
        names.setdefault(_name_of_today(name, in_checkpoint), name)
    return names


def _name_of_today(name: str, in_checkpoint: Collection[str]) -> str:
    match = _CELL.fullmatch(name)
    if match is None:
        return name
    if match["stack"]:
        second = f"{name[: match.start('stack')]}multi_rnn_cell/cell_1/"
        if any(other.startswith(second) for other in in_checkpoint):
            return name  # one of several layers, which no unit has
    cell, param = _CELLS.get(match["cell"], match["cell"]), _PARAMS.get(match["param"], match["param"])
    return f"{match['before']}{cell}/{match['part'] or ''}{param}"
