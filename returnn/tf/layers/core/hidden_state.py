"""Hidden states: what recurrent layers remember, in one or several parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError


def select_state(parts: Mapping[str, Tensor], key: int | str | None, *, where: str) -> list[Tensor]:
    """
    :param parts: of a hidden state, by name
    :param key: name or number of a part; None or "*" for all
    :param where: for the error message
    :raises ConfigError: if there is no such part
    """
    if key in (None, "*"):
        return list(parts.values())
    if key in parts:
        return [parts[str(key)]]
    if isinstance(key, int) and -len(parts) <= key < len(parts):
        return [list(parts.values())[key]]
    raise ConfigError(f"{where}: the hidden state has no part {key!r}.\n  Possible: {', '.join(parts)}, '*'.")


def side_by_side(parts: Sequence[Tensor], *, out_dim: Dim | None = None) -> Tensor:
    """
    :param parts: each [..., F]
    :param out_dim: default: made from those of the parts
    :return: [..., sum of all F]
    """
    dims = [part.feature_dim for part in parts]
    if len(parts) == 1:
        part = parts[0]
        return part if out_dim in (None, dims[0]) else rf.replace_dim(part, in_dim=dims[0], out_dim=out_dim)[0]
    result, dim = rf.concat(*zip(parts, dims, strict=True), allow_broadcast=True, out_dim=out_dim)
    return result.copy_with_roles(feature_dim=dim)
