"""Rules of the grammar: what computes each value from those at the same place."""

from __future__ import annotations

from typing import Any

from tests.fuzz.grammar import ACTIVATIONS, Net, changed, is_dense, production


@production(4)
def linear(net: Net) -> bool:
    name = net.pick(lambda s: s.batch and (s.is_dense or s.sparse is not None) and s.dtype in ("float32", "int32"))
    if not name:
        return False
    size = net.size()
    source = net.shapes[name]
    options = net.linear_options()
    if net.chance(0.1):
        options["batch_norm"] = {"masked_time": net.chance(0.5)}
    kind = (
        {"class": "linear", "activation": net.random.choice(ACTIVATIONS)} if net.chance(0.6) else {"class": "softmax"}
    )
    options.update(net.out_option(size))
    shape = changed(source, feature=size, sparse=None, dtype="float32")
    made = net.add("lin" if kind["class"] == "linear" else "sm", {**kind, "from": name, **options}, shape)
    if kind["class"] == "linear" and net.chance(0.2) and source.feature and "batch_norm" not in options:
        net.add(
            "lin",
            {
                "class": "linear",
                "from": name,
                "activation": None,
                "n_out": size,
                "reuse_params": made,
                **{k: v for k, v in options.items() if k == "with_bias"},
            },
            shape,
        )
    elif kind["class"] == "linear" and net.chance(0.2) and source.feature and "batch_norm" not in options:
        net.add("back", {
            "class": "linear", "from": made, "activation": None, "n_out": source.feature,
            "use_transposed_weights": True,
            "reuse_params": {"map": {"W": {"reuse_layer": made}, "b": None}},
        }, source)  # fmt: skip
    return True


@production(2)
def activation(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    net.add(
        "act",
        {
            "class": "activation",
            "activation": net.random.choice((*ACTIVATIONS[1:], "softmax", "log_softmax")),
            "from": name,
        },
        net.shapes[name],
    )
    return True


@production(2)
def copies(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    r = net.random.random()
    if r < 0.3:
        net.add("copy", {"class": "copy", "from": name, **net.maybe({"dropout": 0.0})}, shape)
    elif r < 0.6:
        others = [n for n, s in net.shapes.items() if s.is_dense and s.time == shape.time and s.static == shape.static]
        sources = [name, *net.random.choices(others, k=net.random.choice([1, 1, 2]))]
        size = sum(net.shapes[n].feature or 0 for n in sources)
        net.add("cat", {"class": "copy", "from": sources}, changed(shape, feature=size))
    elif r < 0.8:
        noise = {"*": None, "T": 1} if shape.time else None
        net.add(
            "drop",
            {
                "class": "dropout",
                "from": name,
                "dropout": 0.0,
                **({"dropout_noise_shape": noise} if noise and net.chance(0.5) else {}),
            },
            shape,
        )
    else:
        net.add("pr", {"class": "print", "from": name, "summarize": 1}, shape)
    return True


@production(3)
def concat(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    if shape.time and net.chance(0.25):
        net.add(
            "cat",
            {"class": "concat", "from": [(name, "T"), (name, "T")]},
            changed(shape, time=f"{shape.time}+{shape.time}"),
        )
        return True
    others = [n for n, s in net.shapes.items() if s.is_dense and s.time == shape.time and s.static == shape.static]
    other = net.random.choice(others)
    size = (shape.feature or 0) + (net.shapes[other].feature or 0)
    options = net.maybe({"allow_broadcast": True})
    if net.chance(0.2):
        options["out_dim"] = net.new_dim("cat", size)
    net.add("cat", {"class": "concat", "from": [(name, "F"), (other, "F")], **options}, changed(shape, feature=size))
    return True


@production(3)
def norms(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    r = net.random.random()
    if r < 0.3:
        net.add("ln", {"class": "layer_norm", "from": name, **net.maybe({"epsilon": [1e-5, 1e-3]})}, shape)
    elif r < 0.5:
        axis = net.random.choice(["F", "F", "T"] if shape.time else ["F"])
        net.add(
            "norm",
            {
                "class": "norm",
                "from": name,
                "axis": axis,
                **net.maybe({"scale": False, "bias": False, "epsilon": 1e-3}),
            },
            shape,
        )
    elif r < 0.65:
        axis = net.random.choice(["F", "F", "T"] if shape.time else ["F"])
        keep = net.chance(0.3)
        out = changed(shape, feature=1 if keep else None) if axis == "F" else (changed(shape, time=None))
        net.add(
            "mn",
            {
                "class": "math_norm",
                "from": name,
                "p": net.random.choice([1, 2, 3]),
                "axis": axis,
                **({"keep_dims": True} if keep else {}),
            },
            out if not keep else None,
        )
    else:
        net.add("bn", {
            "class": "batch_norm", "from": name, **net.maybe({
                "momentum": [0.1, 0.99], "epsilon": 0.001, "masked_time": [True, False], "use_shift": False,
                "use_std": False,
                "use_sample": [0.0, 0.5, 1.0], "update_sample_only_in_training": True, "delay_sample_update": True,
                "force_sample": True, "param_version": [0, 1, 2], "gamma_init": 0.5, "beta_init": 0.1,
            }, 0.2)}, shape)  # fmt: skip
        layer = net.layers[list(net.layers)[-1]]
        if "masked_time" not in layer and (net.version or 0) >= 12:  # it has to be said since then
            layer["masked_time"] = net.chance(0.5)
    return True


@production(3)
def expressions(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    forms = [
        "safe_log(tf.abs(source(0)) + 1e-3)", "source(0, auto_convert=False) * 2.0", "tf.square(source(0))",
        "tf.abs(source(0)) + 0.1", "tf.where(tf.greater(source(0), 0.0), source(0), tf.zeros_like(source(0)))",
        "tf.nn.sigmoid(source(0)) * self.network.get_config().float('undefined_opt', 2.0)",
        "source(0) - source(1)", "source(0) / (1.0 + tf.abs(source(1)))", "tf.concat", "cast",
    ]  # fmt: skip
    form = net.random.choice(forms)
    sources: Any = [name] if net.chance(0.5) else name
    out = shape
    options: dict[str, Any] = {}
    if "source(1)" in form:
        others = [n for n, s in net.shapes.items() if s.is_dense and s == shape]
        sources = [name, net.random.choice(others)]
    elif form == "tf.concat":
        if shape.static or not shape.feature:
            return False
        form = "tf.concat([source(0), 2.0 * source(0)], axis=-1)"
        size = 2 * shape.feature
        options["out_type"] = {"dim": size, "shape": (None, size) if shape.time else (size,)}
        out = changed(shape, feature=size)
    elif form == "cast":
        net.add("cast", {"class": "cast", "from": name, "dtype": "int32"}, None)
        return True
    net.add("ev", {"class": "eval", "from": sources, "eval": form, **options}, out)
    return True


@production(2)
def combine(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    kind = net.random.choice(["add", "mul", "sub", "minimum", "maximum", "average", "squared_difference"])
    others = [n for n, s in net.shapes.items() if s.is_dense and s == shape]
    broadcast = [
        n
        for n, s in net.shapes.items()
        if s.is_dense and s.feature == shape.feature and not s.static and s.time is None
    ]
    count = 1 if kind in ("sub", "squared_difference") else net.random.choice([1, 1, 2])
    sources = [name, *net.random.choices(others + broadcast[:1], k=count)]
    options = net.maybe({"allow_broadcast_all_sources": True, "n_out": shape.feature}, 0.15)
    net.add("comb", {"class": "combine", "kind": kind, "from": sources, **options}, shape)
    return True


@production(2)
def compare(net: Net) -> bool:
    name = net.pick(lambda s: s.batch and s.dtype in ("float32", "int32"))
    if not name:
        return False
    shape = net.shapes[name]
    kind = net.random.choice(["equal", "less", "less_equal", "greater", "greater_equal", "not_equal"])
    value = net.random.choice([0.0, 0.1]) if shape.dtype == "float32" else 1
    net.add(
        "cmp", {"class": "compare", "from": name, **({} if kind == "equal" else {"kind": kind}), "value": value}, None
    )
    return True


@production(2)
def switch(net: Net) -> bool:
    name = net.pick(lambda s: s.is_frames and s.time == "time")
    if not name:
        return False
    shape = net.shapes[name]
    if "mask" in net.extern_data:
        condition = "data:mask"
    else:
        condition = net.add("flag", {"class": "constant", "value": net.chance(0.5), "dtype": "bool"}, None)
    others = [n for n, s in net.shapes.items() if s == shape]
    branches = [name, net.random.choice([net.random.choice(others), -0.5, 0.0])]
    net.random.shuffle(branches)
    net.add(
        "switch",
        {"class": "switch", "condition": condition, "true_from": branches[0], "false_from": branches[1]},
        shape,
    )
    return True


@production(1)
def gradients(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    net.add(
        "sg", {"class": "scaled_grad", "from": name, "scale": net.random.choice([0.0, 0.5, -1.0])}, net.shapes[name]
    )
    return True


@production(1)
def values(net: Net) -> bool:
    r = net.random.random()
    if r < 0.5:
        options: dict[str, Any] = net.random.choice(
            [
                {"value": 1.0, "shape": (net.size(),)},
                {"value": 0.5},
                {"value": 2, "dtype": "int32"},
                {"value": True, "dtype": "bool"},
            ]
        )
        net.add("const", {"class": "constant", **options, **net.maybe({"with_batch_dim": True}, 0.5)}, None)
    else:
        net.add(
            "var",
            {
                "class": "variable",
                "shape": (net.size(),),
                **net.maybe({"add_batch_axis": True, "add_time_axis": True, "init": 0.5}),
            },
            None,
        )
    return True
