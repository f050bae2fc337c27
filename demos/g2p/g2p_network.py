"""
Letters to phonemes: an embedding, two bidirectional LSTMs, and a decoder with attention.

The attention is that of Bahdanau et al. 2015, "Neural machine translation by jointly learning to align and translate",
with weight feedback: it is told where it has been so far (Tu et al. 2016, "Modeling coverage").
"""

from __future__ import annotations

from typing import Any

NetDict = dict[str, Any]


def attention_network(
    *,
    embedding: int,
    encoder: int,
    decoder: int,
    attention: int,
    encoder_dropout: float,
    decoder_dropout: float,
    output_dropout: float,
    beam_size: int,
) -> NetDict:
    """
    :param embedding: size of those of letters and phonemes
    :param encoder: of each direction of each LSTM
    :param decoder: of its LSTM
    :param attention: of its hidden layer
    :param encoder_dropout: of the inputs of its LSTMs
    :param decoder_dropout: of the input of its LSTM
    :param output_dropout: before the softmax
    :param beam_size: of the search
    :return: the network, whose layer "decision" is the best hypothesis
    """
    return {
        "letters": {**_projection(embedding), "from": "data"},
        **_blstm("lstm0", "letters", encoder, encoder_dropout),
        **_blstm("lstm1", ["lstm0_fw", "lstm0_bw"], encoder, encoder_dropout),
        "encoder": {"class": "copy", "from": ["lstm1_fw", "lstm1_bw"]},
        "enc_ctx": {"class": "linear", "activation": None, "n_out": attention, "from": "encoder"},
        "output": {
            "class": "rec",
            "from": [],
            "target": "classes",
            "max_seq_len": "max_len_from('base:encoder') + 8",
            "unit": {
                "output": {
                    "class": "choice", "target": "classes", "beam_size": beam_size, "from": "prob", "initial_output": 0,
                },
                "end": {"class": "compare", "from": "output", "value": 0},
                "phoneme": {**_projection(embedding), "from": "output", "initial_output": 0},
                "s": {
                    "class": "rnn_cell", "unit": "LSTMBlock", "n_out": decoder, "from": ["prev:phoneme", "prev:att"],
                    **_dropout(decoder_dropout),
                },
                **_attention(attention),
                "readout": {
                    "class": "linear", "activation": "tanh", "n_out": attention, "from": ["s", "prev:phoneme", "att"],
                },
                "prob": {
                    "class": "softmax", "from": "readout", **_dropout(output_dropout), "target": "classes",
                    "loss": "ce", "loss_opts": {"label_smoothing": 0.1}, "loss_only_on_non_search": True,
                },
            },
        },
        "decision": {"class": "decide", "from": "output", "only_on_search": True},
    }  # fmt: skip


def _projection(size: int) -> NetDict:
    return {"class": "linear", "activation": None, "with_bias": False, "n_out": size}


def _blstm(name: str, source: str | list[str], size: int, dropout: float) -> NetDict:
    options = {"class": "rec", "unit": "nativelstm2", "n_out": size, "from": source, **_dropout(dropout)}
    return {f"{name}_fw": {**options, "direction": 1}, f"{name}_bw": {**options, "direction": -1}}


def _dropout(probability: float) -> NetDict:
    """:return: options of a layer which drops each entry of its input on its own"""
    return {"dropout": probability, "dropout_noise_shape": {"*": None}}


def _attention(size: int) -> NetDict:
    """:return: layers of one step of the decoder, from its state "s" to "att", what it attends to"""
    return {
        "s_ctx": {**_projection(size), "from": "s"},
        "feedback": {**_projection(size), "from": "prev:sum_weights"},
        "energy_in": {
            "class": "combine", "kind": "add", "from": ["base:enc_ctx", "feedback", "s_ctx"], "n_out": size,
        },
        "energy_tanh": {"class": "activation", "activation": "tanh", "from": "energy_in"},
        "energy": {**_projection(1), "from": "energy_tanh"},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "sum_weights": {"class": "combine", "kind": "add", "from": ["prev:sum_weights", "weights"]},
        "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
    }  # fmt: skip
