"""Which dims of two tensors stand for each other, where not all are equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from returnn.tensor import Dim


def match_dims(own: Sequence[Dim], others: Sequence[Dim]) -> tuple[list[Dim | None], list[Dim]]:
    """
    Equal dims belong together; of the rest, those of which one was computed from the other, then those with the same
    name. If there are as many of them, the rest belongs together in order, those of the same kind first.

    :param own: dims of a tensor
    :param others: dims of another one
    :return: for each of `own`, the one of `others` or None; and those of `others` which are left
    """
    matched: list[Dim | None] = [None] * len(own)
    rest = list(others)
    rules: list[Callable[[Dim, Dim], bool]] = [
        lambda a, b: a == b and a.match_priority == b.match_priority,
        lambda a, b: a == b,
        lambda a, b: a in b.get_derived_bases_set() or b in a.get_derived_bases_set(),
        lambda a, b: a.name is not None and a.name == b.name,
        lambda a, b: a.kind is b.kind and len(own) == len(others),
        lambda a, b: len(own) == len(others),
    ]
    for rule in rules:
        for i, dim in enumerate(own):
            if matched[i] is None:
                found = next((other for other in rest if rule(dim, other)), None)
                if found is not None:
                    matched[i] = found
                    rest = [other for other in rest if other is not found]
    return matched, rest
