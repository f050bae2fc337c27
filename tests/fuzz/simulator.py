"""
What a network computes, written a second time: one sequence, plain numpy, from the documentation of the layers.

There is no batch, no padding and no mask, as there is only one sequence. The axes are time, further static ones,
features, in this order, as far as they are there. Layers it does not know are an `Unknown`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
from numpy import ndarray

from tests.fuzz.grammar import Net, Shape

ACTIVATIONS: dict[str | None, Callable[[ndarray], ndarray]] = {
    None: lambda x: x,
    "identity": lambda x: x,
    "relu": lambda x: numpy.maximum(x, 0),
    "relu6": lambda x: numpy.clip(x, 0, 6),
    "tanh": numpy.tanh,
    "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "swish": lambda x: x / (1 + numpy.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + numpy.vectorize(math.erf)(x / math.sqrt(2))),
    "exp": numpy.exp,
    "safe_exp": lambda x: numpy.exp(numpy.clip(x, -30, 30)),
    "sin": numpy.sin,
    "cos": numpy.cos,
    "abs": numpy.abs,
    "square": numpy.square,
    "softplus": lambda x: numpy.logaddexp(x, 0),
    "softsign": lambda x: x / (1 + numpy.abs(x)),
    "elu": lambda x: numpy.where(x > 0, x, numpy.expm1(x)),
    "leaky_relu": lambda x: numpy.where(x > 0, x, 0.2 * x),
    "selu": lambda x: 1.0507009873554805 * numpy.where(x > 0, x, 1.6732632423543772 * numpy.expm1(x)),
    "softmax": lambda x: numpy.exp(_log_softmax(x)),
    "log_softmax": lambda x: _log_softmax(x),
}
REDUCTIONS: dict[str, Callable[..., ndarray]] = {
    "mean": numpy.mean, "max": numpy.max, "min": numpy.min, "sum": numpy.sum,
    "logsumexp": lambda x, axis, keepdims: numpy.log(numpy.sum(numpy.exp(x), axis=axis, keepdims=keepdims)),
}  # fmt: skip
COMMON_OPTIONS = (
    "class", "from", "is_output_layer", "trainable", "dropout", "L2", "forward_weights_init", "loss", "loss_scale",
)  # fmt: skip
COMPARISONS = {
    "equal": numpy.equal, "not_equal": numpy.not_equal, "less": numpy.less, "less_equal": numpy.less_equal,
    "greater": numpy.greater, "greater_equal": numpy.greater_equal,
}  # fmt: skip


class Unknown(Exception):
    """The simulator does not know how to compute that."""


class Simulator:
    """Computes layers of a network when they are asked for."""

    def __init__(self, net: Net, data: dict[str, ndarray], params: dict[str, ndarray]) -> None:
        """
        :param net: the network
        :param data: by key: of one sequence, without the batch axis
        :param params: by name of the variable
        """
        self.net = net
        self.params = params
        self.values: dict[str, ndarray] = {
            "data" if key == "data" else f"data:{key}": x.astype("float64") if x.dtype == "float32" else x
            for key, x in data.items()
        }
        self.used: set[str] = set()

    def value(self, name: str) -> ndarray:
        """:return: output of the layer"""
        if name not in self.values:
            if name not in self.net.layers:
                raise Unknown(name)
            layer = self.net.layers[name]
            compute = getattr(self, f"do_{layer['class']}", None)
            if compute is None:
                raise Unknown(layer["class"])
            known = {
                "class",
                "from",
                "is_output_layer",
                "trainable",
                "dropout",
                "L2",
                "forward_weights_init",
                "loss",
                "loss_scale",
            }
            options = {key: value for key, value in layer.items() if key not in known}
            self.values[name] = compute(name, layer, options)
        return self.values[name]

    def source(self, layer: dict[str, Any]) -> ndarray:
        """:return: the only source"""
        names = layer["from"]
        if isinstance(names, list):
            return numpy.concatenate([self.value(name) for name in names], axis=-1)
        return self.value(names)

    def shape(self, layer: dict[str, Any]) -> Shape:
        """:return: shape of the source, as the generator knows it"""
        names = layer["from"]
        name = names[0] if isinstance(names, list) else names
        if name not in self.net.shapes:
            raise Unknown(name)
        return self.net.shapes[name]

    def param(self, name: str) -> ndarray:
        """:return: value of the parameter"""
        self.used.add(name)
        return self.params[name].astype("float64")

    def axis(self, layer: dict[str, Any], description: Any) -> int:
        """:return: number of the axis in an array"""
        shape = self.shape(layer)
        axes = [*(["T"] if shape.time else []), *(f"dim:{size}" for size in shape.static), "F"]
        description = {"feature": "F"}.get(description, description)
        if axes.count(description) != 1:
            raise Unknown(f"axis {description!r}")
        return axes.index(description) - len(axes)

    def do_linear(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Also `softmax`, and with parameters of another layer."""
        x = self.source(layer)
        if "batch_norm" in layer:
            raise Unknown("batch_norm")
        reuse = layer.get("reuse_params")
        scope = reuse if isinstance(reuse, str) else name
        if isinstance(reuse, dict):
            weights = self.param(f"{reuse['map']['W']['reuse_layer']}/W").T
        else:
            weights = self.param(f"{scope}/W")
        y = x @ weights if x.dtype.kind == "f" else weights[x]
        if layer.get("with_bias", True):
            y = y + self.param(f"{name if isinstance(reuse, dict) else scope}/b")
        return ACTIVATIONS["softmax" if layer["class"] == "softmax" else layer["activation"]](y)

    do_softmax = do_linear

    def do_activation(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Without parameters."""
        return ACTIVATIONS[layer["activation"]](self.source(layer))

    def do_copy(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Of several sources, the features are concatenated."""
        return self.source(layer)

    do_dropout = do_print = do_scaled_grad = do_copy

    def do_reinterpret_data(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Only the order of axes changes, or the dim."""
        if set(options) - {"enforce_time_major", "enforce_batch_major", "size_base"}:
            raise Unknown(str(options))
        return self.source(layer)

    def do_concat(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Without padding, sequences stand one behind the other."""
        axis = self.axis({"from": layer["from"][0][0]}, layer["from"][0][1])
        return numpy.concatenate([self.value(source) for source, _ in layer["from"]], axis=axis)

    def do_layer_norm(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Over features."""
        x = _standardized(self.source(layer), -1, options.get("epsilon", 1e-6))
        return x * self.param(f"{name}/scale") + self.param(f"{name}/bias")

    def do_norm(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Over any axis, with parameters of the features."""
        x = _standardized(self.source(layer), self.axis(layer, layer["axis"]), options.get("epsilon", 1e-6))
        x = x * self.param(f"{name}/scale") if options.get("scale", True) else x
        return x + self.param(f"{name}/bias") if options.get("bias", True) else x

    def do_math_norm(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """The p-norm."""
        axis, p = self.axis(layer, layer["axis"]), layer["p"]
        total = numpy.sum(numpy.abs(self.source(layer)) ** p, axis=axis, keepdims=options.get("keep_dims", False))
        return total ** (1 / p)

    def do_eval(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """The forms that the generator knows."""
        names = layer["from"] if isinstance(layer["from"], list) else [layer["from"]]
        x, *others = [self.value(source) for source in names]
        text = layer["eval"]
        if text.startswith("safe_log"):
            return numpy.log(numpy.maximum(numpy.abs(x) + 1e-3, 1e-20))
        forms: dict[str, Callable[[], ndarray]] = {
            "source(0, auto_convert=False) * 2.0": lambda: x * 2,
            "source(0) * 2": lambda: x * 2,
            "tf.square(source(0))": lambda: x**2,
            "tf.abs(source(0)) + 0.1": lambda: numpy.abs(x) + 0.1,
            "source(0) - source(1)": lambda: x - others[0],
            "source(0) / (1.0 + tf.abs(source(1)))": lambda: x / (1 + numpy.abs(others[0])),
            "tf.concat([source(0), 2.0 * source(0)], axis=-1)": lambda: numpy.concatenate([x, 2 * x], -1),
            "tf.where(tf.greater(source(0), 0.0), source(0), tf.zeros_like(source(0)))": lambda: numpy.maximum(x, 0),
            "tf.nn.sigmoid(source(0)) * self.network.get_config().float('undefined_opt', 2.0)": lambda: (
                2 * ACTIVATIONS["sigmoid"](x)
            ),
        }
        return forms[text]()

    def do_combine(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """From left to right."""
        kinds: dict[str, Callable[[ndarray, ndarray], ndarray]] = {
            "add": numpy.add, "average": numpy.add, "mul": numpy.multiply, "sub": numpy.subtract,
            "minimum": numpy.minimum, "maximum": numpy.maximum, "squared_difference": lambda a, b: (a - b) ** 2,
        }  # fmt: skip
        result, *others = [self.value(source) for source in layer["from"]]
        for other in others:
            if result.ndim > 2 > other.ndim + 1:
                other = other.reshape([1] * (result.ndim - 1) + [-1])
            result = kinds[layer["kind"]](result, other)
        return result / len(layer["from"]) if layer["kind"] == "average" else result

    def do_compare(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """With a number."""
        return COMPARISONS[options.get("kind", "equal")](self.source(layer), layer["value"])

    def do_split_dims(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Time is filled up with zeros."""
        x, axis = self.source(layer), self.axis(layer, layer["axis"])
        dims = list(layer["dims"])
        if layer["axis"] == "T":
            missing = -x.shape[axis] % dims[1]
            x = numpy.pad(x, [(0, missing if i == axis % x.ndim else 0) for i in range(x.ndim)])
        number = axis % x.ndim
        return x.reshape([*x.shape[:number], *dims, *x.shape[number + 1 :]])

    def do_merge_dims(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """A static axis and the features, in the order in memory, or in the given one."""
        x, shape = self.source(layer), self.shape(layer)
        axes = layer["axes"]
        if len(shape.static) != 1 or x.shape[-1] == shape.static[0] or shape.time == "static":
            raise Unknown("merge_dims")
        keep = options.get("keep_order", (self.net.version or 0) >= 6)
        if keep and isinstance(axes, list) and axes[0] == "F":
            x = numpy.swapaxes(x, -1, -2)
        return x.reshape([*x.shape[:-2], -1])

    def do_reduce(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Over one axis, or several; the batch has one sequence."""
        axis = layer.get("axis", layer.get("axes"))
        several = [axis] if isinstance(axis, str) else axis
        axis = tuple(self.axis(layer, x) for x in several if x != "B")
        x, keep = self.source(layer), options.get("keep_dims", False)
        if layer["mode"] == "argmax":
            return numpy.argmax(x, axis=axis[0], keepdims=keep)
        return REDUCTIONS[layer["mode"]](x, axis=axis, keepdims=keep)

    def do_slice(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """As in Python."""
        x, axis = self.source(layer), self.axis(layer, layer["axis"])
        part = slice(options.get("slice_start"), options.get("slice_end"), options.get("slice_step"))
        return x[tuple(part if i == axis % x.ndim else slice(None) for i in range(x.ndim))]

    def do_pad(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Both sides."""
        x = self.source(layer)
        axis = self.axis(layer, {"spatial": "T"}.get(layer["axes"], layer["axes"])) % x.ndim
        amounts = layer["padding"][0] if isinstance(layer["padding"], list) else layer["padding"]
        amounts = (amounts, amounts) if isinstance(amounts, int) else amounts
        mode = {"replication": "edge"}.get(options.get("mode", "constant"), options.get("mode", "constant"))
        value = {"constant_values": options.get("value", 0)} if mode == "constant" else {}
        return numpy.pad(x, [amounts if i == axis else (0, 0) for i in range(x.ndim)], mode=mode, **value)

    def do_window(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Frames around each frame."""
        x, size = self.source(layer), layer["window_size"]
        if options.get("padding", "same") == "same":
            left = options.get("window_left", (size - 1) // 2)
            x = numpy.pad(x, [(left, size - 1 - left)] + [(0, 0)] * (x.ndim - 1))
        count = x.shape[0] - size + 1
        return numpy.stack([x[i : i + size] for i in range(0, count, options.get("stride", 1))])

    def do_shift_axis(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Cuts frames off; otherwise frames beyond the end of the sequence are there, which convolutions see."""
        if layer["amount"] > 0 or options.get("pad", True):
            raise Unknown("shift_axis")
        return self.source(layer)[-layer["amount"] :]

    def do_postfix_in_time(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Or `prefix_in_time`: frames more."""
        x, is_post = self.source(layer), layer["class"].startswith("post")
        value = options.get("postfix" if is_post else "prefix", 0.0)
        value = self.value(value) if isinstance(value, str) else value
        more = numpy.broadcast_to(value, (options.get("repeat", 1), *x.shape[1:]))
        return numpy.concatenate([x, more] if is_post else [more, x])

    do_prefix_in_time = do_postfix_in_time

    def do_repeat(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Each entry several times."""
        axis = {"T": 0, "F": -1}[options.get("axis", "T")]
        return numpy.repeat(self.source(layer), layer["repetitions"], axis=axis)

    def do_tile(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """All features several times."""
        return numpy.concatenate([self.source(layer)] * layer["multiples"]["F"], axis=-1)

    def do_reduce_out(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Over features that stand beside each other."""
        x = self.source(layer)
        return REDUCTIONS[layer["mode"]](x.reshape([*x.shape[:-1], -1, layer["num_pieces"]]), axis=-1, keepdims=False)

    def do_gating(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """The second half of the features is the gate."""
        a, b = numpy.split(self.source(layer), 2, axis=-1)
        return ACTIVATIONS[layer["activation"]](a) * ACTIVATIONS["sigmoid"](b)

    def do_seq_len_mask(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """One sequence has no padding."""
        return self.source(layer)

    def do_cumsum(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Over time; to each entry something can be added before."""
        x = self.source(layer)
        more = options.get("additional_left_summand_per_element", 0)
        x = x + more
        return numpy.cumsum(x[::-1], axis=0)[::-1] if options.get("reverse") else numpy.cumsum(x, axis=0)

    def do_softmax_over_spatial(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Over time."""
        x = numpy.moveaxis(self.source(layer) * options.get("energy_factor", 1.0), 0, -1)
        return numpy.moveaxis(ACTIVATIONS["log_softmax" if options.get("log_space") else "softmax"](x), -1, 0)

    def do_subnetwork(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """A network with one source."""
        if options.get("reuse_params"):
            raise Unknown("reuse_params")
        scope = options.get("name_scope", name)
        inner = Net(self.net.random, self.net.version, layers=layer["subnetwork"])
        prefix = f"{scope}/" if scope else ""
        params = {key[len(prefix) :]: value for key, value in self.params.items() if key.startswith(prefix)}
        simulator = Simulator(inner, {"data": self.source(layer)}, params)
        simulator.values.update((f"base:{key}", value) for key, value in self.values.items())
        result = simulator.value("output")
        for key in simulator.used:
            self.used.add(prefix + key)
        return result

    def do_cond(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """The branch has the name scope of the whole."""
        condition = self.net.layers[layer["condition"]]
        is_true = condition["value"] if condition["class"] == "constant" else self.value(layer["condition"])
        branch = layer["true_layer" if is_true else "false_layer"]
        if not hasattr(self, f"do_{branch['class']}"):
            raise Unknown(branch["class"])
        return getattr(self, f"do_{branch['class']}")(name, branch, branch)

    def do_switch(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """By a constant, or frame by frame."""
        true, false = (
            self.value(option) if isinstance(option, str) else option
            for option in (layer["true_from"], layer["false_from"])
        )
        if layer["condition"] == "data:mask":
            return numpy.where(self.values["data:mask"][:, None], true, false)
        x = numpy.broadcast_arrays(true, false)
        return x[0] if self.net.layers[layer["condition"]]["value"] else x[1]

    def do_conv(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Over time, one filter."""
        x = self.source(layer)
        if x.ndim != 2 or set(options) & {"groups", "batch_norm", "input_add_feature_dim", "dilation_rate"}:
            raise Unknown("conv")
        size, stride, padding = layer["filter_size"][0], options.get("strides", 1), layer["padding"].lower()
        x = _padded(x, size, stride, padding, 0.0)
        weights = self.param(f"{name}/W")
        out = [numpy.einsum("ki,kio->o", x[i : i + size], weights) for i in range(0, len(x) - size + 1, stride)]
        has_bias = options.get("with_bias", (self.net.version or 0) >= 10)
        y = numpy.stack(out) + (self.param(f"{name}/bias") if has_bias else 0)
        return ACTIVATIONS[options.get("activation")](y)

    def do_pool(self, name: str, layer: dict[str, Any], options: dict[str, Any]) -> ndarray:
        """Over time."""
        x = self.source(layer)
        if x.ndim != 2:
            raise Unknown("pool")
        size = layer["pool_size"][0]
        stride = options.get("strides", size)
        stride = stride[0] if isinstance(stride, tuple) else stride
        x = _padded(x, size, stride, options.get("padding", "valid"), numpy.nan)
        pool = numpy.nanmax if layer["mode"] == "max" else numpy.nanmean
        return numpy.stack([pool(x[i : i + size], axis=0) for i in range(0, len(x) - size + 1, stride)])


def _padded(x: ndarray, size: int, stride: int, padding: str, value: float) -> ndarray:
    """:return: x with the frames that the padding "same" of TensorFlow adds"""
    if padding == "valid":
        return x
    if padding != "same":
        raise Unknown(padding)
    total = max((-(-len(x) // stride) - 1) * stride + size - len(x), 0)
    return numpy.pad(x, [(total // 2, total - total // 2), (0, 0)], constant_values=value)


def _standardized(x: ndarray, axis: int, epsilon: float) -> ndarray:
    mean, variance = x.mean(axis=axis, keepdims=True), x.var(axis=axis, keepdims=True)
    return (x - mean) / numpy.sqrt(variance + epsilon)


def _log_softmax(x: ndarray) -> ndarray:
    x = x - x.max(axis=-1, keepdims=True)
    return x - numpy.log(numpy.exp(x).sum(axis=-1, keepdims=True))
