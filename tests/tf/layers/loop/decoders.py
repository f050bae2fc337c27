"""Ten kinds of decoders, as loops over a subnetwork, each with what is around it."""

from __future__ import annotations

EXTERN_DATA = {"data": {"dim": 5}, "classes": {"dim": 7, "sparse": True}, "align": {"dim": 7, "sparse": True}}
ENCODER = {"encoder": {"class": "linear", "activation": "tanh", "n_out": 6, "from": "data"}}


def linear(source, n_out=4, **options):
    return {"class": "linear", "activation": None, "n_out": n_out, "from": source, **options}


def choice(source="prob", **options):
    return {"class": "choice", "target": "classes", "beam_size": 3, "from": source, "initial_output": 0, **options}


def softmax(source, **options):
    return {"class": "softmax", "from": source, "target": "classes", "loss": "ce", **options}


def cell(source, n_out=4):
    return {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": n_out, "from": source}


COUNTER = {"out_type": {"dtype": "int32", "shape": (), "dim": None}}
END = {"class": "compare", "from": "output", "value": 0}


def loop(unit, **options):
    return {
        **ENCODER,
        "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 8, "unit": unit, **options},
    }


LABELS = {"output": choice(), "end": END, "emb": linear("prev:output")}
ATTENTION = {
    "query": linear("s"),
    "energy_in": {"class": "combine", "kind": "add", "from": ["base:keys", "query"]},
    "energy": linear("energy_in", 1),
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
}
KEYS = {"keys": linear("encoder")}

DECODERS = {
    "lstm language model": loop({**LABELS, "s": cell("emb"), "prob": softmax("s")}),
    "attention": {
        **KEYS,
        **loop({**LABELS, "s": cell(["emb", "prev:att"]), **ATTENTION, "prob": softmax(["s", "att"])}),
    },
    "attention with weight feedback": {
        **KEYS,
        **loop(
            {
                **LABELS,
                "s": cell("emb"),
                **ATTENTION,
                "sum": {"class": "combine", "kind": "add", "from": ["prev:sum", "weights"]},
                "feedback": linear("prev:sum"),
                "energy_in": {"class": "combine", "kind": "add", "from": ["base:keys", "query", "feedback"]},
                "prob": softmax(["s", "att"]),
            }
        ),
    },
    "transformer": loop(
        {
            **LABELS,
            "self": {
                "class": "self_attention",
                "num_heads": 2,
                "n_out": 4,
                "total_key_dim": 4,
                "attention_left_only": True,
                "from": "emb",
            },
            "ff": linear("self"),
            "prob": softmax("ff"),
        }
    ),
    "transducer": {
        **ENCODER,
        "output": {
            "class": "rec",
            "from": "encoder",
            "target": "align",
            "unit": {
                "output": choice(target="align"),
                "is_label": {
                    "class": "compare",
                    "kind": "not_equal",
                    "from": "output",
                    "value": 0,
                    "initial_output": False,
                },
                "slow": {
                    "class": "masked_computation",
                    "mask": "prev:is_label",
                    "from": "prev:output",
                    "unit": {
                        "class": "subnetwork",
                        "from": "data",
                        "subnetwork": {
                            "emb": linear("data"),
                            "output": {"class": "rec", "unit": "nativelstm2", "n_out": 3, "from": "emb"},
                        },
                    },
                },
                "slow_full": {"class": "unmask", "from": "slow", "mask": "prev:is_label"},
                "joint": linear(["data:source", "slow_full"]),
                "prob": softmax("joint", target="align"),
            },
        },
    },
    "segmental": loop(
        {
            **LABELS,
            "start": {"class": "eval", "eval": "source(0) + 1", "from": "prev:start", "initial_output": 0, **COUNTER},
            "segment": {"class": "slice_nd", "from": "base:encoder", "start": "start", "size": 2},
            "mean": {"class": "reduce", "mode": "mean", "axis": "stag:slice", "from": "segment"},
            "s": cell(["emb", "mean"]),
            "prob": softmax("s"),
        }
    ),
    "scheduled sampling": loop(
        {**LABELS, "output": choice(scheduled_sampling=True), "s": cell("emb"), "prob": softmax("s")}
    ),
    "nested loop": loop(
        {
            **LABELS,
            "s": cell("emb"),
            "inner": {
                "class": "rec",
                "from": "base:encoder",
                "unit": {"output": {**cell(["data:source", "base:s"], 3)}},
            },
            "mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "inner"},
            "prob": softmax("mean"),
        }
    ),
    "without input": loop(
        {
            "counter": {
                "class": "eval",
                "eval": "source(0) + 1",
                "from": "prev:counter",
                "initial_output": 0,
                **COUNTER,
            },
            "end": {"class": "compare", "kind": "greater_equal", "from": "counter", "value": 4},
            "output": {"class": "copy", "from": "counter"},
        },
        target=None,
    ),
    "with external language model": loop(
        {
            **LABELS,
            "s": cell("emb"),
            "prob": softmax("s"),
            "lm": {
                "class": "subnetwork",
                "from": "prev:output",
                "subnetwork": {
                    "emb": linear("data"),
                    "s": cell("emb"),
                    "output": {"class": "softmax", "n_out": 7, "from": "s"},
                },
            },
            "lm_score": {"class": "activation", "activation": "safe_log", "from": "lm"},
            "am_score": {"class": "activation", "activation": "safe_log", "from": "prob"},
            "score": {"class": "eval", "from": ["am_score", "lm_score"], "eval": "source(0) + 0.3 * source(1)"},
            "output": choice("score", input_type="log_prob"),
        }
    ),
}
