"""Seeds of random layers: each layer that is recorded gets another one, which follows from that of all."""

from __future__ import annotations

import json


class SeedLayers:
    """For their meaning see `returnn.frontend._backends.required`."""

    @staticmethod
    def set_random_seed(seed: int) -> None:
        """From now on, layers get seeds that follow from this one."""
        _state.update(seed=int(seed), count=0)

    @staticmethod
    def get_random_state() -> dict[str, bytes]:
        """:return: seed, and how many layers got theirs"""
        return {"returnn_layers_tf": json.dumps(_state).encode("utf8")}

    @staticmethod
    def set_random_state(state: dict[str, bytes]) -> None:
        """:param state: what `get_random_state` returned"""
        _state.update(json.loads(state["returnn_layers_tf"]))


def next_seed() -> list[int] | None:
    """:return: seed of the next random layer; None if there is no seed: the network gives it one"""
    seed = _state.get("seed")
    if seed is None:
        return None
    _state["count"] += 1
    return [seed, _state["count"]]


_state: dict[str, int] = {}
