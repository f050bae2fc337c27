"""
Parameters of translation models of other toolkits, under the names of layers.

Tensor2Tensor (https://github.com/tensorflow/tensor2tensor), a Transformer: layers of the encoder are `enc_01_...`, of
the decoder `output/rec/dec_01_...`, as in configs for this model. Blocks (https://blocks.readthedocs.io): a brick
`/a/b` is the layer `a_b`; the LSTM of Blocks is in two bricks, the recurrent one, and a linear map of its input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy

from returnn.util.errors import UserError

Arrays = Mapping[str, numpy.ndarray]

_GATES_OF_BLOCKS = "ifjo"
_GATES_OF_CELL = "ijfo"
_FORGET_BIAS = 1.0  # that the cell adds, and Blocks does not
_PEEPHOLES = {"W_cell_to_in": "w_i_diag", "W_cell_to_forget": "w_f_diag", "W_cell_to_out": "w_o_diag"}
_INITIAL = ("initial_state", "initial_state_", "initial_cells")


def layers_of_t2t(values: Arrays, *, num_heads: int) -> dict[str, numpy.ndarray]:
    """
    :param values: of a checkpoint of Tensor2Tensor, by name; states of its optimizer are left out
    :param num_heads: of the attention
    :return: by name of layer and parameter
    :raises UserError: if a parameter is unknown, or missing
    """
    body = {}
    embeddings: dict[str, list[tuple[int, numpy.ndarray]]] = {}
    for name, value in values.items():
        if match := re.fullmatch(r"\w+/body/(.*)", name):
            if not re.search(r"/(Adam\w*|Adafactor\w*|v[rc]?)(_\d+)?$", name):
                body[match[1]] = value
        elif match := re.fullmatch(r"\w+/symbol_modality(?:_\d+){2,3}/(\w+)/weights_(\d+)", name):
            embeddings.setdefault(match[1], []).append((int(match[2]), value))
    if not body:
        raise UserError("the checkpoint has no parameters of a model of Tensor2Tensor, such as 'transformer/body/...'.")
    layers = {**_embeddings_of_t2t(embeddings)}
    for name in sorted(body):
        match = re.fullmatch(r"(encoder|decoder)/(?:layer_(\d+)/)?(.*)", name)
        converted = _of_t2t_layer(match[1], match[2], match[3], body, num_heads) if match else None
        if converted is None:
            raise UserError(f"the parameter {name!r} of Tensor2Tensor has no place in a layer.")
        layers.update(converted)
    return layers


def _embeddings_of_t2t(found: Mapping[str, Sequence[tuple[int, numpy.ndarray]]]) -> dict[str, numpy.ndarray]:
    """:param found: kind -> number and value of each part; the labels are spread over these"""
    whole = {
        kind: numpy.concatenate([value for _, value in sorted(parts, key=lambda p: p[0])])
        for kind, parts in found.items()
    }
    targets: dict[str, Sequence[str]] = {
        "shared": ("source", "target", "softmax"),
        "input_emb": ("source",),
        "target_emb": ("target",),
        "softmax": ("softmax",),
    }
    layers = {}
    for kind, value in whole.items():
        if kind not in targets:
            raise UserError(f"the embedding {kind!r} of Tensor2Tensor is unknown.\n  Known: {', '.join(targets)}.")
        for target in targets[kind]:
            if target == "softmax":
                layers["output/rec/output_prob/W"] = numpy.ascontiguousarray(value.T)
            else:
                scope = "" if target == "source" else "output/rec/"
                layers[f"{scope}{target}_embed_raw/W"] = value
    return layers


def _of_t2t_layer(
    side: str, number: str | None, rest: str, body: Arrays, num_heads: int
) -> dict[str, numpy.ndarray] | None:
    """:return: the parameters of layers that come from this one; None if it is unknown"""
    scope = "" if side == "encoder" else "output/rec/"
    where = f"{side}/layer_{number}/" if number is not None else f"{side}/"
    value = body[where + rest]
    norm = re.fullmatch(r"(?:(\w+)/)?layer_prepostprocess/layer_norm/layer_norm_(scale|bias)", rest)
    if number is None:
        return {f"{scope}{side}/{norm[2]}": value} if norm and norm[1] is None else None
    prefix = f"{side[:3]}_{int(number) + 1:02d}"
    block = {"self_attention": "self_att", "encdec_attention": "att", "ffn": "ff"}
    if norm and norm[1] in block:
        return {f"{scope}{prefix}_{block[norm[1]]}_laynorm/{norm[2]}": value}
    if feed := re.fullmatch(r"ffn/(conv[12])/(kernel|bias)", rest):
        param = {"kernel": "W", "bias": "b"}[feed[2]]
        return {f"{scope}{prefix}_ff_{feed[1]}/{param}": value.reshape(value.shape[-2:]) if param == "W" else value}
    attention = re.fullmatch(
        r"(self_attention|encdec_attention)/multihead_attention/(q|k|v|output_transform)/kernel", rest
    )
    if not attention:
        return None
    kind, part = block[attention[1]], attention[2]
    value = value.reshape(value.shape[-2:])
    if part == "output_transform":
        return {f"{scope}{prefix}_{kind}_lin/W": value}
    if kind == "att":
        name, inner = {"q": ("query0", scope), "k": ("key0", ""), "v": ("value0", "")}[part]
        return {f"{inner}{prefix}_att_{name}/W": value}
    names = [f"{where}self_attention/multihead_attention/{x}/kernel" for x in "qkv"]
    missing = next((name for name in names if name not in body), None)
    if missing:
        raise UserError(f"the parameter {missing!r} of Tensor2Tensor is missing.")
    weights = [body[name].reshape(body[name].shape[-2:]) for name in names]
    return {f"{scope}{prefix}_self_att_att/QKV": _by_head(weights, num_heads)}


def _by_head(parts: Sequence[numpy.ndarray], num_heads: int) -> numpy.ndarray:
    """
    :param parts: query, key, value: (in, heads * n)
    :param num_heads: number of heads
    :return: (in, heads * (n + n + n)), one head after the other
    """
    for part in parts:
        if part.shape[1] % num_heads:
            raise UserError(f"option '--num_heads': {num_heads} does not divide {part.shape[1]}.")
    split = [part.reshape(len(part), num_heads, -1) for part in parts]
    return numpy.concatenate(split, axis=2).reshape(len(parts[0]), -1)


def layers_of_blocks(values: Arrays, lstms: Sequence[tuple[str, str, str]]) -> dict[str, numpy.ndarray]:
    """
    :param values: of a model of Blocks, by name, such as "/decoder/readout/merge.W"; also with "|" for "/"
    :param lstms: brick of an LSTM, brick of the linear map of its input, name of the layer, with `use_peepholes`
    :return: by name of layer and parameter
    :raises UserError: if a brick is missing
    """
    left = {"/" + name.replace("|", "/").lstrip("/"): value for name, value in values.items()}
    layers: dict[str, numpy.ndarray] = {}

    def take(name: str) -> numpy.ndarray:
        if name not in left:
            shown = ", ".join(sorted(left)[:5])
            raise UserError(f"the parameter {name!r} of Blocks is missing.\n  There are: {shown}, ...")
        return left.pop(name)

    for brick, fork, layer in lstms:
        layers.update({f"{layer}/rec/{name}": value for name, value in _lstm_of_blocks(brick, fork, take).items()})
        for name in _INITIAL:
            left.pop(f"{brick}.{name}", None)  # learned states; a layer gets them by 'initial_state'
    for name, value in left.items():
        path, dot, param = name.rpartition(".")
        if not dot or param not in ("W", "b"):
            raise UserError(f"the parameter {name!r} of Blocks has no place in a layer.\n  Is it of an LSTM? '--lstm'.")
        layers[f"{path.strip('/').replace('/', '_')}/{param}"] = value
    return layers


def _lstm_of_blocks(brick: str, fork: str, take: Callable[[str], numpy.ndarray]) -> dict[str, numpy.ndarray]:
    kernel = numpy.concatenate([take(f"{fork}.W"), take(f"{brick}.W_state")])
    bias = take(f"{fork}.b")
    parts = dict(zip(_GATES_OF_BLOCKS, numpy.split(bias, 4), strict=True))
    parts["f"] = parts["f"] - numpy.asarray(_FORGET_BIAS, bias.dtype)
    columns = dict(zip(_GATES_OF_BLOCKS, numpy.split(kernel, 4, axis=1), strict=True))
    cell = {
        "kernel": numpy.concatenate([columns[gate] for gate in _GATES_OF_CELL], axis=1),
        "bias": numpy.concatenate([parts[gate] for gate in _GATES_OF_CELL]),
        **{target: take(f"{brick}.{source}") for source, target in _PEEPHOLES.items()},
    }
    return {f"lstm_cell/{name}": value for name, value in cell.items()}
