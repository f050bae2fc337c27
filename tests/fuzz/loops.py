"""
Random loops: decoders with attention, states, self attention, nested loops, and a target that they follow.

As in `feed_forward`, every network is one that has to work, and the same seed gives the same one.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.grammar import Net, Shape

CELLS = (
    "standardlstm", "basiclstm", "vanillalstm", "LSTMBlock", "zoneoutlstm", "rhn", "gru", "basicrnn", "nativelstm2",
    "layernormvariantslstm",
)  # fmt: skip
ENCODERS = ("lstmp", "gru", "nativelstm2", "lstm", None, None)


class Decoder:
    """A loop while it is written."""

    def __init__(self, net: Net, encoder_size: int, key_size: int) -> None:
        self.net = net
        self.encoder_size = encoder_size
        self.key_size = key_size
        self.layers: dict[str, dict[str, Any]] = {}
        self.vectors: list[str] = []  # layers with one vector for each sequence

    def some(self) -> str:
        """:return: a vector, of this frame, of the frame before, or from outside"""
        name = self.net.random.choice(self.vectors)
        if not name.startswith(("prev:", "data:", "base:")) and self.net.chance(0.2):
            return f"prev:{name}"
        return name

    def sources(self) -> Any:
        """:return: as the option `from`"""
        r = self.net.random.random()
        if r < 0.4:
            return self.some()
        if r < 0.6:
            return [self.some()]
        names = [self.some(), self.some()]
        return names if names[0] != names[1] else names[:1]

    def add_state(self) -> None:
        """A recurrent cell, or a unit as a step."""
        net = self.net
        name = self.new_name("s")
        unit = net.random.choice(CELLS)
        size = net.size()
        options: dict[str, Any] = {}
        if unit == "zoneoutlstm":
            options["unit_opts"] = {"zoneout_factor_cell": 0.0, "zoneout_factor_output": 0.0}
        if unit == "rhn" and net.chance(0.7):
            options["unit_opts"] = {"depth": 2}
        if unit == "nativelstm2" or (unit == "vanillalstm" and net.chance(0.5)):
            desc = {"class": "rec", "unit": unit}
        else:
            desc = {"class": "rnn_cell", "unit": unit, **net.maybe({"weights_init": "glorot_uniform"})}
        r = net.random.random()
        if r < 0.15 and desc["class"] == "rnn_cell":
            init = net.add(
                "enc_init", {"class": "linear", "from": "enc_mean", "n_out": size, "activation": "tanh"}, None
            )
            is_lstm = "lstm" in unit.lower()
            options["initial_state"] = {"c": f"base:{init}", "h": "zeros"} if is_lstm else f"base:{init}"
        elif r < 0.3:
            options["initial_state"] = net.random.choice(["zeros", "var"])
        self.layers[name] = {**desc, "from": self.sources(), "n_out": size, **options}
        self.vectors.append(name)
        if net.chance(0.2) and "lstm" in unit.lower():
            state = self.new_name("st")
            self.layers[state] = {"class": "get_last_hidden_state", "from": name, "n_out": size, "key": "c"}
            self.vectors.append(state)

    def add_attention(self) -> None:
        """Attention to the encoder: dot, MLP, several heads, with feedback, or windows."""
        net = self.net
        name = self.new_name("att")
        if net.chance(0.25):
            self.add_attention_of_heads(name)
            return
        r = net.random.random()
        softmax = {"class": "softmax_over_spatial", "from": f"{name}_e", **net.maybe({"energy_factor": 0.5})}
        query = {
            "class": "linear",
            "from": self.sources(),
            "n_out": self.key_size,
            "activation": None,
            "with_bias": False,
        }
        if r < 0.3:
            self.layers[f"{name}_q"] = query
            self.layers[f"{name}_e"] = {
                "class": "dot",
                "from": ["base:enc_ctx", f"{name}_q"],
                "red1": "F",
                "red2": "F",
                "var1": "T",
                "var2": None,
            }
        elif r < 0.75:
            self.layers[f"{name}_q"] = query
            inputs = ["base:enc_ctx", f"{name}_q"]
            if net.chance(0.3):
                self.layers[f"{name}_locc"] = {
                    "class": "conv",
                    "from": f"prev:{name}_w",
                    "filter_size": (3,),
                    "padding": "same",
                    "n_out": 4,
                    "activation": None,
                    "with_bias": True,
                }
                self.layers[f"{name}_fb"] = {
                    "class": "linear",
                    "from": f"{name}_locc",
                    "n_out": self.key_size,
                    "activation": None,
                    "with_bias": False,
                }
                inputs.append(f"{name}_fb")
                softmax["initial_output"] = "zeros"
            elif net.chance(0.3):
                self.layers[f"{name}_acc"] = {
                    "class": "eval",
                    "from": [f"prev:{name}_acc", f"{name}_w", "base:inv_fert"],
                    "eval": "source(0) + source(1) * source(2) * 0.5",
                    "out_type": {"dim": 1, "shape": (None, 1)},
                }
                self.layers[f"{name}_fb"] = {
                    "class": "linear",
                    "from": f"prev:{name}_acc",
                    "n_out": self.key_size,
                    "activation": None,
                    "with_bias": False,
                }
                inputs.append(f"{name}_fb")
            self.layers[f"{name}_in"] = {
                "class": "combine",
                "kind": "add",
                "from": inputs,
                **net.maybe({"n_out": self.key_size}),
            }
            self.layers[f"{name}_t"] = {"class": "activation", "activation": "tanh", "from": f"{name}_in"}
            heads = 2 if net.chance(0.2) and f"{name}_acc" not in self.layers else 1
            self.layers[f"{name}_e"] = {
                "class": "linear",
                "from": f"{name}_t",
                "n_out": heads,
                "activation": None,
                "with_bias": False,
            }
            self.layers[f"{name}_w"] = softmax
            self.layers[name] = {"class": "generic_attention", "weights": f"{name}_w", "base": "base:enc"}
            if heads > 1:
                self.layers[f"{name}_m"] = {"class": "merge_dims", "from": name, "axes": "except_batch"}
                name = f"{name}_m"
            self.vectors.append(name)
            return
        else:
            self.layers[f"{name}_s"] = {"class": "linear", "from": self.sources(), "n_out": 1, "activation": "sigmoid"}
            self.layers[f"{name}_loc"] = {
                "class": "eval",
                "from": [f"prev:{name}_loc", f"{name}_s"],
                "eval": "source(0) + 1.3 * source(1)",
                "out_type": {"dim": 1, "shape": (1,)},
            }
            self.layers[name] = {
                "class": "gauss_window_attention",
                "from": f"{name}_loc",
                "base": "base:enc",
                "window_size": 5,
                "n_out": self.encoder_size,
                "std": 0.7,
            }
            self.vectors.append(name)
            return
        self.layers[f"{name}_w"] = softmax
        self.layers[name] = {"class": "generic_attention", "weights": f"{name}_w", "base": "base:enc"}
        self.vectors.append(name)

    def add_attention_of_heads(self, name: str) -> None:
        """Dot attention with two heads, whose values are joined."""
        net = self.net
        half = self.key_size // 2
        net.layers["enc_k"] = {"class": "split_dims", "from": "enc_ctx", "axis": "F", "dims": (2, half)}
        net.layers["enc_v0"] = {"class": "linear", "from": "enc", "n_out": 8, "activation": None}
        net.layers["enc_v"] = {"class": "split_dims", "from": "enc_v0", "axis": "F", "dims": (2, 4)}
        query = {"class": "linear", "from": self.sources(), "n_out": self.key_size, "activation": None}
        self.layers[f"{name}_q"] = {**query, **net.maybe({"with_bias": False}, 0.5)}
        self.layers[f"{name}_qs"] = {"class": "split_dims", "from": f"{name}_q", "axis": "F", "dims": (2, half)}
        self.layers[f"{name}_e"] = {
            "class": "dot", "from": ["base:enc_k", f"{name}_qs"], "red1": "F", "red2": "F", "var1": "T", "var2": None,
        }  # fmt: skip
        self.layers[f"{name}_w"] = {
            "class": "softmax_over_spatial",
            "from": f"{name}_e",
            **net.maybe({"energy_factor": 0.5}),
        }
        self.layers[f"{name}_g"] = {"class": "generic_attention", "weights": f"{name}_w", "base": "base:enc_v"}
        self.layers[name] = {"class": "merge_dims", "axes": "static", "from": f"{name}_g"}
        self.vectors.append(name)

    def add_history(self) -> None:
        """Self attention, over what was so far."""
        net = self.net
        name = self.new_name("sa")
        if net.chance(0.5):
            self.layers[name] = {
                "class": "self_attention",
                "from": self.some(),
                "num_heads": 2,
                "total_key_dim": 4,
                "n_out": 6,
                "attention_left_only": True,
            }
        else:
            key, history = net.new_dim("sakey", 4), net.new_dim("hist", None, "SpatialDim")
            source = self.some()
            self.layers[f"{name}_q"] = {"class": "linear", "from": source, "out_dim": key, "activation": None}
            self.layers[f"{name}_k"] = {"class": "linear", "from": source, "out_dim": key, "activation": None}
            self.layers[f"{name}_kk"] = {"class": "cum_concat", "from": f"{name}_k", "out_spatial_dim": history}
            self.layers[f"{name}_e"] = {"class": "dot", "from": [f"{name}_q", f"{name}_kk"], "reduce": key}
            self.layers[f"{name}_w"] = {"class": "softmax_over_spatial", "from": f"{name}_e", "axis": history}
            self.layers[name] = {"class": "dot", "from": [f"{name}_w", f"{name}_kk"], "reduce": history}
        self.vectors.append(name)

    def add_nested(self) -> None:
        """A loop over the encoder in each step, or a subnetwork with a state."""
        net = self.net
        size = net.size()
        if net.chance(0.4):
            name = self.new_name("inner")
            base = self.some()
            sources = ["data:source", *(["prev:output"] if net.chance(0.7) else []), f"base:{base}"]
            self.layers[name] = {"class": "rec", "from": "base:enc", "unit": {
                "x": {"class": "linear", "from": sources, "n_out": size, "activation": "tanh"},
                "output": {"class": "copy", "from": "x"},
            }}  # fmt: skip
            self.layers[f"{name}_r"] = {
                "class": "reduce",
                "from": name,
                "mode": net.random.choice(["max", "mean"]),
                "axis": "T",
            }
            self.vectors.append(f"{name}_r")
            return
        name = self.new_name("z")
        self.layers[name] = {"class": "subnetwork", "from": self.sources(), "subnetwork": {
            "x": {"class": "linear", "from": ["data", "prev:x"], "n_out": size, "activation": "tanh"},
            "output": {"class": "combine", "kind": "add", "from": ["x", "prev:output"]},
        }}  # fmt: skip
        self.vectors.append(name)

    def add_simple(self) -> None:
        """Layers without a state of their own."""
        net = self.net
        r = net.random.random()
        if r < 0.4:
            name = self.new_name("l")
            source = [self.some()]
            if net.chance(0.4):
                source.append(f"prev:{name}")
            self.layers[name] = {
                "class": "linear",
                "from": source,
                "activation": net.random.choice(["tanh", "relu"]),
                "n_out": net.size(),
                **net.maybe({"initial_output": [0, "zeros", "ones", 0.5]}),
            }
        elif r < 0.5:
            name, double = self.new_name("g"), self.new_name("g_in")
            self.layers[double] = {"class": "linear", "from": self.sources(), "n_out": 6, "activation": None}
            self.layers[name] = {"class": "gating", "from": double, "activation": "tanh"}
        elif r < 0.6:
            name = self.new_name("d")
            self.layers[name] = {"class": "dropout", "from": self.some(), "dropout": 0.0}
        else:
            name = self.new_name("ln")
            self.layers[name] = {"class": "layer_norm", "from": self.some()}
        self.vectors.append(name)

    def add_shared(self) -> None:
        """Two layers with the same parameters, of which one may be moved out of the loop and the other one not."""
        net = self.net
        first, second = self.new_name("sh"), self.new_name("sh")
        size, is_cell = net.size(), net.chance(0.3)
        kind = {"class": "rnn_cell", "unit": "LSTMBlock"} if is_cell else {"class": "linear", "activation": "tanh"}
        past = f"prev:{net.random.choice([first, second])}"
        names = (self.some(), past) if net.chance(0.5) else (past, self.some())
        for name, source in zip((first, second), names, strict=True):
            linear = {"class": "linear", "activation": None, "n_out": size}
            self.layers[f"{name}_in"] = {**linear, "from": [self.some(), source] if net.chance(0.3) else source}
            self.layers[name] = {**kind, "from": f"{name}_in", "n_out": size}
        maps = [] if is_cell else [{"map": {"W": first, "b": None}}, {"map": {"W": {"reuse_layer": first}, "b": first}}]
        self.layers[second]["reuse_params"] = net.random.choice([first, first, *maps])
        self.vectors += [first, second]

    def new_name(self, prefix: str) -> str:
        """:return: a name for a layer"""
        self.net.counts[prefix] = self.net.counts.get(prefix, 0) + 1
        return f"{prefix}{self.net.counts[prefix]}"


def make_network(seed: int, *, search: bool = False) -> Net:
    """:return: a network that has to work, for training or for search"""
    random = Random(seed)
    net = Net(random, random.choice([None, 1, 6, 11, 12, 18, 21, 22, 29, 30]))
    net.train = not search
    size, labels = random.choice([2, 6, 9]), random.choice([4, 5, 6, 9])
    net.extern_data["data"] = {"dim": size, **net.maybe({"shape": (None, size)}, 0.7)}
    if net.chance(0.2):
        net.extern_data["data"] = {"dim": size, "shape": (None, size), "time_dim_axis": 0, "batch_dim_axis": 1}
    net.extern_data["classes"] = {"dim": labels, "sparse": True, "available_for_inference": False}
    encoder, key = net.size(), net.random.choice([4, 6])
    unit = net.random.choice(ENCODERS)
    net.layers["enc"] = (
        {"class": "rec", "from": "data", "n_out": encoder, "unit": unit}
        if unit
        else {"class": "linear", "from": "data", "n_out": encoder, "activation": "tanh"}
    )
    net.layers["enc_ctx"] = {
        "class": "linear",
        "from": "enc",
        "n_out": key,
        "activation": None,
        **net.maybe({"with_bias": [True, False]}),
    }
    net.layers["enc_mean"] = {"class": "reduce", "mode": net.random.choice(["mean", "max"]), "axis": "T", "from": "enc"}
    net.layers["inv_fert"] = {"class": "linear", "from": "enc", "n_out": 1, "activation": "sigmoid", "with_bias": False}
    decoder = Decoder(net, encoder, key)
    choice = {
        "class": "choice",
        "from": "prob",
        "target": "classes",
        "beam_size": net.random.choice([1, 3, 4, 6]),
        "initial_output": net.random.choice([0, 1]),
        **net.maybe({"length_normalization": False}),
    }
    decoder.layers["output"] = choice
    emb = {"class": "linear", "n_out": net.size(), "activation": None, **net.maybe({"with_bias": False}, 0.6)}
    if net.chance(0.5):
        decoder.layers["emb"] = {**emb, "from": "output", **net.maybe({"initial_output": [0, "zeros", "ones"]}, 0.4)}
        decoder.vectors = ["prev:emb"]
    else:
        decoder.layers["emb"] = {**emb, "from": "prev:output"}
        decoder.vectors = ["emb"]
    if net.chance(0.3):
        decoder.vectors.append("base:enc_mean")
    parts = (
        [decoder.add_state] * 2
        + [decoder.add_attention] * 2
        + [decoder.add_history, decoder.add_nested, decoder.add_simple, decoder.add_shared]
    )
    for _ in range(random.randint(1, 5)):
        random.choice(parts)()
    kind = random.choice(["softmax", "log_prob", "logits"])
    last = [name for name in decoder.vectors if not name.startswith(("prev:", "base:"))]
    source: Any = last[-1] if last else decoder.vectors[-1]
    if net.chance(0.3):
        source = [source, *[name for name in decoder.vectors[:1] if name != source]]
    loss = {"loss": "ce"} if net.chance(0.8) else {}
    if kind == "softmax":
        decoder.layers["prob"] = {
            "class": "softmax",
            "from": source,
            "target": "classes",
            **loss,
            **({"loss_opts": {"label_smoothing": 0.1}} if loss and net.chance(0.3) else {}),
        }
    elif kind == "log_prob":
        choice["input_type"] = "log_prob"
        decoder.layers["prob"] = {
            "class": "linear",
            "from": source,
            "n_out": labels,
            "activation": "log_softmax",
            "target": "classes",
        }
    else:
        choice["input_type"] = "logits"
        decoder.layers["prob"] = {
            "class": "linear",
            "from": source,
            "n_out": labels,
            "activation": None,
            "target": "classes",
            **loss,
        }
        if loss:
            decoder.layers["prob"]["loss_opts"] = {"input_type": "logits"}
    if loss:
        decoder.layers["prob"].update(net.maybe({"loss_scale": 0.5}, 0.2))
    if search or net.chance(0.3):
        decoder.layers["end"] = {"class": "compare", "from": "output", "value": 0}
    for name in net.random.sample(sorted(decoder.layers), k=min(2, len(decoder.layers))):
        has_history = name.startswith("sa") and name.endswith(("_e", "_w", "_kk"))  # another size in each step
        if (
            name not in ("end", "output")
            and not has_history
            and decoder.layers[name]["class"] not in ("rec", "cum_concat")
        ):
            decoder.layers[name]["is_output_layer"] = True
    loop = {"class": "rec", "from": [], "target": "classes", "unit": decoder.layers, "is_output_layer": True}
    loop.update(net.maybe({"name_scope": "shared_dec", "optimize_move_layers_out": [True, False], "direction": 1}, 0.2))
    if search:
        loop["max_seq_len"] = net.random.choice([7, "max_len_from('base:enc') + 1"])
        loop.update(net.maybe({"include_eos": True}))
        decoder.layers["src"] = {"class": "choice_get_src_beams", "from": "output", "is_output_layer": True}
    net.layers["loop"] = loop
    if search:
        net.layers["best"] = {
            "class": "decide",
            "from": "loop",
            "target": "classes",
            **net.maybe({"length_normalization": True}),
        }
        net.layers["best_len"] = {"class": "length", "from": "best"}
        net.layers["score"] = {"class": "choice_get_beam_scores", "from": "loop"}
    net.layers["output"] = {"class": "copy", "from": "best" if search else "loop"}
    for name in ("enc", "best", "best_len", "score"):
        if name in net.layers:
            net.layers[name]["is_output_layer"] = True
    net.shapes["loop"] = Shape()
    return net


def inner_outputs(net: Net) -> list[str]:
    """:return: paths of the layers in the loop that are wanted outside"""
    unit = net.layers["loop"]["unit"]
    return [f"loop/{name}" for name, layer in unit.items() if layer.get("is_output_layer")]
