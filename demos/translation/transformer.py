"""
A Transformer (Vaswani et al. 2017, "Attention is all you need"), whose blocks normalize their input and not their
output ("pre-norm").

The decoder is written for one label. In training, the toolkit moves all of it out of the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NetDict = dict[str, Any]


@dataclass(frozen=True)
class Transformer:
    """Sizes of one, and how it is trained and searched."""

    size: int  # of all that goes from block to block
    hidden: int  # of the feed-forward layers
    heads: int
    encoder_layers: int
    decoder_layers: int
    dropout: float
    label_smoothing: float = 0.1
    beam_size: int = 4

    def network(self) -> NetDict:
        """:return: the network, whose layer "decision" is the best translation"""
        net = self._embedded("source", "data")
        last = "source"
        for i in range(self.encoder_layers):
            net.update(self._attention_block(f"enc{i}_self", last, {"attention_left_only": False}))
            net.update(self._feed_forward_block(f"enc{i}_ff", f"enc{i}_self"))
            last = f"enc{i}_ff"
        net["encoder"] = {"class": "layer_norm", "from": last}
        for i in range(self.decoder_layers):
            for name in ("key", "value"):
                net.update(self._heads(f"dec{i}_{name}", "encoder"))
        net["output"] = {
            "class": "rec", "from": [], "target": "classes", "max_seq_len": "max_len_from('base:encoder') * 2 + 10",
            "unit": self._decoder(),
        }  # fmt: skip
        net["decision"] = {"class": "decide", "from": "output", "only_on_search": True}
        return net

    def _decoder(self) -> NetDict:
        """:return: layers of one label; the label 0 is the end, and what is before the first one"""
        net: NetDict = {
            "output": {
                "class": "choice", "target": "classes", "beam_size": self.beam_size, "from": "prob",
                "initial_output": 0,
            },
            "end": {"class": "compare", "from": "output", "value": 0},
            **self._embedded("target", "prev:output"),
        }  # fmt: skip
        last = "target"
        for i in range(self.decoder_layers):
            net.update(self._attention_block(f"dec{i}_self", last, {"attention_left_only": True}))
            net.update(self._cross_attention_block(f"dec{i}_cross", f"dec{i}_self", f"base:dec{i}"))
            net.update(self._feed_forward_block(f"dec{i}_ff", f"dec{i}_cross"))
            last = f"dec{i}_ff"
        net["decoder"] = {"class": "layer_norm", "from": last}
        net["prob"] = {
            "class": "softmax", "from": "decoder", "target": "classes", "loss": "ce",
            "loss_opts": {"label_smoothing": self.label_smoothing}, "loss_only_on_non_search": True,
        }  # fmt: skip
        return net

    def _embedded(self, name: str, source: str) -> NetDict:
        return {
            f"{name}_embed": {
                **_linear(source, self.size, with_bias=False),
                "forward_weights_init": f"random_normal_initializer(stddev={self.size**-0.5})",
            },
            f"{name}_scaled": {"class": "eval", "from": f"{name}_embed", "eval": f"source(0) * {self.size**0.5}"},
            f"{name}_placed": {"class": "positional_encoding", "add_to_input": True, "from": f"{name}_scaled"},
            name: {"class": "copy", "from": f"{name}_placed", **self._dropout()},
        }

    def _attention_block(self, name: str, source: str, options: NetDict) -> NetDict:
        return {
            f"{name}_norm": {"class": "layer_norm", "from": source},
            f"{name}_att": {
                "class": "self_attention", "num_heads": self.heads, "total_key_dim": self.size, "n_out": self.size,
                "attention_dropout": self.dropout, "from": f"{name}_norm", **options,
            },
            f"{name}_out": _linear(f"{name}_att", self.size),
            name: self._residual(source, f"{name}_out"),
            **self._dropped(f"{name}_out"),
        }  # fmt: skip

    def _cross_attention_block(self, name: str, source: str, encoder: str) -> NetDict:
        return {
            f"{name}_norm": {"class": "layer_norm", "from": source},
            **self._heads(f"{name}_query", f"{name}_norm"),
            f"{name}_energy": {"class": "dot", "from": [f"{encoder}_key", f"{name}_query"], "reduce": "F"},
            f"{name}_weights": {
                "class": "softmax_over_spatial", "from": f"{name}_energy",
                "energy_factor": (self.size // self.heads) ** -0.5,
            },
            f"{name}_weights_dropped": {"class": "copy", "from": f"{name}_weights", **self._dropout()},
            f"{name}_att": {"class": "dot", "from": [f"{name}_weights_dropped", f"{encoder}_value"], "reduce": "T"},
            f"{name}_merged": {"class": "merge_dims", "from": f"{name}_att", "axes": "static"},
            f"{name}_out": _linear(f"{name}_merged", self.size),
            name: self._residual(source, f"{name}_out"),
            **self._dropped(f"{name}_out"),
        }  # fmt: skip

    def _feed_forward_block(self, name: str, source: str) -> NetDict:
        return {
            f"{name}_norm": {"class": "layer_norm", "from": source},
            f"{name}_hidden": {**_linear(f"{name}_norm", self.hidden), "activation": "relu"},
            f"{name}_out": {**_linear(f"{name}_hidden", self.size), **self._dropout()},
            name: self._residual(source, f"{name}_out"),
            **self._dropped(f"{name}_out"),
        }

    def _heads(self, name: str, source: str) -> NetDict:
        """:return: a linear layer [..., F], and the same by head, [..., heads, F / heads]"""
        return {
            f"{name}_all": _linear(source, self.size),
            name: {"class": "split_dims", "from": f"{name}_all", "axis": "F", "dims": (self.heads, -1)},
        }

    def _residual(self, source: str, change: str) -> NetDict:
        return {"class": "combine", "kind": "add", "from": [source, f"{change}_dropped"]}

    def _dropped(self, name: str) -> NetDict:
        return {f"{name}_dropped": {"class": "copy", "from": name, **self._dropout()}}

    def _dropout(self) -> NetDict:
        """:return: options of a layer which drops each entry of its input on its own"""
        return {"dropout": self.dropout, "dropout_noise_shape": {"*": None}}


def _linear(source: str, size: int, **options: Any) -> NetDict:
    return {"class": "linear", "activation": None, "from": source, "n_out": size, **options}
