"""
LSTMs of a checkpoint: how the parameters of several layers and directions are named in each layout.

PyTorch and cuDNN have them all in one LSTM: `lstm.weight_ih_l1_reverse`, and `CudnnRNNParamsToCanonical:0` to `:63`,
first all matrices, then all biases, layer by layer, forwards before backwards. In the other layouts, each layer and
direction is an LSTM of its own: `lstm.l1_reverse.ff_weight`. An only layer that goes forwards is `lstm.ff_weight`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from returnn.util.errors import UserError
from returnn.util.numbers.lstm_layouts import Layout
from returnn.util.texts.counted import counted

_PART = re.compile(r"l(\d+)(_reverse)?")
_NUM_MATRICES = 8  # of a layer and direction of cuDNN, and as many biases
_CUDNN = re.compile(r"(.*)CudnnRNNParamsToCanonical:(\d+)")
# What only an LSTM of the layout has; what an optimizer keeps of it is a level below.
_SIGNS = {
    "native": r"W_re",
    "standardlstm": r"lstm_cell/[^/]+",
    "basiclstm": r"basic_lstm_cell/[^/]+",
    "fusedlstm": r"lstm_fused_cell/[^/]+",
    "cudnn_compatible": r"cudnn_compatible_lstm_cell/[^/]+",
    "cudnn": r"CudnnRNNParamsToCanonical:\d+",
    "torch": r"(?:weight|bias)_(?:ih|hh|hr)_l\d+(?:_reverse)?",
    "frontend": r"(?:ff|rec)_weight",
}


@dataclass(frozen=True)
class NamedLstm:
    """An LSTM, with all layers and directions that have one name together."""

    prefix: str
    parts: Mapping[str, Sequence[str]]  # "l0", "l0_reverse", ... -> names of the parameters

    def __str__(self) -> str:
        return repr(self.prefix)


def find_lstms(names: Collection[str], layout: Layout) -> list[NamedLstm]:
    """
    :param names: of all parameters
    :param layout: of the LSTMs
    :return: all that there are; layers and directions of cuDNN are numbered, as `l0`, `l1`, ..., see `with_directions`
    :raises UserError: if a parameter is of an LSTM in this layout which lacks others, or no other layout has it
    """
    found = {"torch": _find_torch, "cudnn": _find_cudnn}.get(layout.name, _find_single)(names, layout)
    used = {name for lstm in found for of_part in lstm.parts.values() for name in of_part}
    sign = re.compile(rf"(.*[./]|){_SIGNS[layout.name]}")
    for name in names:
        if name not in used and sign.fullmatch(name):
            raise UserError(
                f"option '--lstm': {name!r} is of an LSTM in the layout {layout.name!r} that cannot be converted.\n"
                f"  Each has {', '.join(layout.needed[:4])}, and no projection or peepholes; the numbers of layers"
                " have no gaps."
            )
    return found


def joined(lstms: Sequence[NamedLstm], sizes: Mapping[str, tuple[int, int]]) -> list[NamedLstm]:
    """
    :param lstms: of one layer and direction each
    :param sizes: prefix -> size of the input and of the output
    :return: those named as layers and directions of one, and of sizes that fit, are one
    """
    groups: dict[str, dict[str, NamedLstm]] = {}
    for lstm in lstms:
        outer, part = _outer_and_part(lstm.prefix)
        if part:
            groups.setdefault(outer, {})[part] = lstm
    result = list(lstms)
    for outer, group in groups.items():
        order = _order(group)
        if order is None or len(group) < 2 or not _fits([sizes[group[part].prefix] for part in order], order):
            continue
        if len({len(lstm.parts["l0"]) for lstm in group.values()}) > 1:  # some have biases
            continue
        position = min(result.index(lstm) for lstm in group.values())
        result = [lstm for lstm in result if lstm not in group.values()]
        result.insert(position, NamedLstm(outer, {part: group[part].parts["l0"] for part in order}))
    return result


def with_directions(lstm: NamedLstm, sizes: Sequence[tuple[int, int]], directions: int | None) -> NamedLstm:
    """
    :param lstm: of cuDNN
    :param sizes: of the input and output of each layer and direction
    :param directions: 1 or 2; default: what follows from the sizes
    :return: with the names of layers and directions
    :raises UserError: if they do not follow, or do not fit
    """
    num = len(lstm.parts)
    possible = [
        (count, order)
        for count in (1, 2)
        if num % count == 0 and _fits(sizes, order := [_part(i // count, i % count == 1) for i in range(num)])
    ]
    chosen = [order for count, order in possible if directions in (None, count)]
    if not chosen:
        said = "" if directions is None else f" in {counted(directions, 'direction')}"
        raise UserError(f"option '--lstm': {lstm} has {counted(num, 'part')}, whose sizes are of no layers{said}.")
    if len(chosen) > 1:
        raise UserError(
            f"option '--lstm': {lstm} has parts of the same size: two layers, or one in two directions.\n"
            "  Say it by '--directions', 1 or 2."
        )
    return NamedLstm(lstm.prefix, dict(zip(chosen[0], lstm.parts.values(), strict=True)))


def names_of(prefix: str, parts: Sequence[str], layout: Layout, num: int) -> list[list[str]]:
    """
    :param prefix: of the LSTM
    :param parts: its layers and directions, in their order
    :param layout: the wanted one
    :param num: of parameters of each
    :return: names of the parameters of each part
    """
    if layout.name == "torch":
        return [[f"{prefix}{_torch_name(suffix, part)}" for suffix in layout.suffixes[:num]] for part in parts]
    if layout.name == "cudnn":
        return [list(names) for names in _cudnn_names(prefix, len(parts))]
    separator = prefix[-1:] or "."
    scopes = [prefix] if list(parts) == ["l0"] else [f"{prefix}{part}{separator}" for part in parts]
    return [[f"{scope}{suffix}" for suffix in layout.suffixes[:num]] for scope in scopes]


def _find_single(names: Collection[str], layout: Layout) -> list[NamedLstm]:
    found = []
    for name in names:
        prefix = name.removesuffix(layout.suffixes[0])
        if prefix == name or prefix[-1:] not in ("", "/", "."):
            continue
        if all(f"{prefix}{suffix}" in names for suffix in layout.needed):
            own = [f"{prefix}{suffix}" for suffix in layout.suffixes if f"{prefix}{suffix}" in names]
            found.append(NamedLstm(prefix, {"l0": own}))
    return found


def _find_torch(names: Collection[str], layout: Layout) -> list[NamedLstm]:
    parts: dict[str, list[str]] = {}
    for name in names:
        if match := re.fullmatch(r"(.*[./]|)weight_ih_(l\d+(?:_reverse)?)", name):
            parts.setdefault(match[1], []).append(match[2])
    found = []
    for prefix, of_prefix in parts.items():
        order = _order(of_prefix)
        own = {part: [f"{prefix}{_torch_name(suffix, part)}" for suffix in layout.suffixes] for part in order or ()}
        with_biases = any(name in names for of_part in own.values() for name in of_part[2:])
        own = {part: of_part if with_biases else of_part[:2] for part, of_part in own.items()}
        has_projection = any(f"{prefix}{_torch_name('weight_hr_l0', part)}" in names for part in own)
        if own and not has_projection and all(name in names for of_part in own.values() for name in of_part):
            found.append(NamedLstm(prefix, own))
    return found


def _find_cudnn(names: Collection[str], layout: Layout) -> list[NamedLstm]:
    numbers: dict[str, set[int]] = {}
    for name in names:
        if (match := _CUDNN.fullmatch(name)) and match[1][-1:] in ("", "/", "."):
            numbers.setdefault(match[1], set()).add(int(match[2]))
    found = []
    for prefix, of_prefix in numbers.items():
        if len(of_prefix) % len(layout.suffixes) == 0 and of_prefix == set(range(len(of_prefix))):
            parts = _cudnn_names(prefix, len(of_prefix) // len(layout.suffixes))
            found.append(NamedLstm(prefix, {f"l{i}": of_part for i, of_part in enumerate(parts)}))
    return found


def _cudnn_names(prefix: str, num_parts: int) -> list[list[str]]:
    def block(number: int) -> list[str]:
        first = number * _NUM_MATRICES
        return [f"{prefix}CudnnRNNParamsToCanonical:{i}" for i in range(first, first + _NUM_MATRICES)]

    return [block(part) + block(num_parts + part) for part in range(num_parts)]


def _torch_name(suffix: str, part: str) -> str:
    return f"{suffix.removesuffix('l0')}{part}"


def _part(layer: int, is_reverse: bool) -> str:
    return f"l{layer}{'_reverse' if is_reverse else ''}"


def _outer_and_part(prefix: str) -> tuple[str, str]:
    match = re.fullmatch(rf"(.*[./]|)({_PART.pattern})[./]", prefix)
    return (match[1], match[2]) if match else (prefix, "")


def _order(parts: Collection[str]) -> list[str] | None:
    """:return: layer by layer, forwards before backwards; None if there are gaps"""
    directions = (False, True) if any(part.endswith("_reverse") for part in parts) else (False,)
    order = [_part(i // len(directions), directions[i % len(directions)]) for i in range(len(parts))]
    return order if set(order) == set(parts) else None


def _fits(sizes: Sequence[tuple[int, int]], order: Sequence[str]) -> bool:
    """:return: whether the layers can be on top of each other"""
    directions = 1 + any(part.endswith("_reverse") for part in order)
    (first, size), *_ = sizes
    inputs = [first if i < directions else directions * size for i in range(len(sizes))]
    return list(sizes) == [(num, size) for num in inputs]
