"""Rules of the grammar: frames beside each other, recurrences, attention, and networks inside of layers."""

from __future__ import annotations

from typing import Any

from tests.fuzz.grammar import UNITS, WEIGHTS, Net, changed, is_dense, is_frames, production


@production(2)
def window(net: Net) -> bool:
    name = net.pick(is_frames)
    if not name:
        return False
    shape = net.shapes[name]
    size = net.random.choice([2, 3, 4])
    options = net.maybe({"padding": "valid", "stride": 2, "window_left": [0, 1]}, 0.2)
    if "padding" in options:
        options.pop("window_left", None)
    other_frames = "padding" in options or "stride" in options
    time = f"{shape.time}/{net.random.random()}" if other_frames else shape.time
    net.add(
        "win",
        {"class": "window", "from": name, "window_size": size, **options},
        changed(shape, time=time, static=(size,)),
    )
    return True


@production(3)
def conv(net: Net) -> bool:
    name = net.pick(lambda s: s.is_dense and (s.time is not None or s.static) and len(s.static) <= 1)
    if not name:
        return False
    shape = net.shapes[name]
    spatial = (shape.time is not None) + len(shape.static)
    n_out = net.size()
    padding = net.random.choice(["same", "SAME", "valid", "same", "same_static"])
    sizes = tuple(net.random.choice([1, 2, 3]) for _ in range(spatial))
    options = net.maybe({
        "with_bias": [True, False], "activation": ["relu", "swish", "tanh"], "use_time_mask": True, "strides": [2, 3],
        "forward_weights_init": list(WEIGHTS), "trainable": False,
    }, 0.2)  # fmt: skip
    if shape.time is None:
        options.pop("use_time_mask", None)
    if net.chance(0.15) and shape.feature and n_out % shape.feature == 0:
        options["groups"] = shape.feature
    if net.chance(0.1):
        options["batch_norm"] = {"masked_time": net.chance(0.5)}
    if net.chance(0.15) and spatial == 1:
        options["input_add_feature_dim"] = True
        options.pop("groups", None)
        sizes = (sizes[0], 1)
    elif net.chance(0.1) and spatial == 1 and "groups" not in options:
        options["dilation_rate"] = 2
        options.pop("strides", None)
    if spatial == 2 and net.chance(0.5):
        options["in_spatial_dims"] = ["T", f"dim:{shape.static[0]}"] if shape.time else None
        if options["in_spatial_dims"] is None or shape.static[0] == shape.feature:
            del options["in_spatial_dims"]
    elif spatial == 1 and shape.time and net.chance(0.2):
        options["in_spatial_dims"] = ["T"]
        if "input_add_feature_dim" in options:
            del options["in_spatial_dims"]
    static = shape.static
    time = shape.time
    if padding == "valid" or "strides" in options:
        stride = options.get("strides", 1)
        time = time and f"{time}/{net.random.random()}"
        static = tuple(
            _conv_size(s, size, stride, padding)
            for s, size in zip(shape.static, sizes[len(sizes) - len(shape.static) :], strict=True)
        )
    if any(s < 1 for s in static):
        return False
    if "input_add_feature_dim" in options:
        f = _conv_size(shape.feature or 0, 1, options.get("strides", 1), padding)
        static = (*static, f)
    net.add(
        "conv",
        {"class": "conv", "from": name, "filter_size": sizes, "padding": padding, **options, "n_out": n_out},
        changed(shape, time=time, static=static, feature=n_out),
    )
    return True


def _conv_size(size: int, filter_size: int, stride: int, padding: str) -> int:
    if padding == "valid":
        size -= filter_size - 1
    return -(-size // stride)


@production(2)
def pool(net: Net) -> bool:
    name = net.pick(lambda s: s.is_dense and (s.time is not None or s.static) and len(s.static) <= 1)
    if not name:
        return False
    shape = net.shapes[name]
    spatial = (shape.time is not None) + len(shape.static)
    sizes = (
        tuple(net.random.choice([1, 2, 3]) for _ in range(spatial)) if spatial == 2 else (net.random.choice([2, 3]),)
    )
    options = net.maybe(
        {"padding": ["same", "valid", "same"], "strides": [1, (1,) * spatial, 2], "use_time_mask": True}, 0.35
    )
    if shape.time is None:
        options.pop("use_time_mask", None)
    if net.chance(0.25) and shape.time:
        if spatial == 1:
            options["in_spatial_dims"] = ["T"]
        elif shape.static[0] != shape.feature:
            options["in_spatial_dims"] = ["T", f"dim:{shape.static[0]}"]
    strides = options.get("strides", sizes)
    strides = (strides,) * spatial if isinstance(strides, int) else strides
    padding = options.get("padding", "valid")
    static = tuple(_conv_size(s, sizes[-1], strides[-1], padding) for s in shape.static)
    if any(s < 1 for s in static):
        return False
    time = shape.time and f"{shape.time}/{net.random.random()}"
    if padding == "same" and strides[0] == 1:
        time = shape.time
    net.add(
        "pool",
        {"class": "pool", "from": name, "mode": net.random.choice(["max", "avg"]), "pool_size": sizes, **options},
        changed(shape, time=time, static=static),
    )
    return True


@production(1)
def transposed_conv(net: Net) -> bool:
    name = net.pick(is_frames)
    if not name:
        return False
    shape = net.shapes[name]
    n_out = net.size()
    options = net.maybe(
        {
            "strides": [(2,), (3,)],
            "activation": "relu",
            "use_time_mask": True,
            "with_bias": False,
            "padding": ["valid", "same"],
            "remove_padding": 1,
        },
        0.3,
    )
    net.add(
        "tconv",
        {
            "class": "transposed_conv",
            "from": name,
            "filter_size": (net.random.choice([2, 3, 4]),),
            **options,
            **net.out_option(n_out),
        },
        changed(shape, time=f"{shape.time}*{net.random.random()}", feature=n_out),
    )
    return True


@production(3)
def recurrent(net: Net) -> bool:
    name = net.pick(lambda s: s.is_frames)
    if not name:
        return False
    shape = net.shapes[name]
    unit = net.random.choice(UNITS)
    size = net.random.choice([2, 6, 8, 9])
    options = net.maybe(
        {
            "direction": [1, -1],
            "L2": 0.01,
            "dropout": 0.0,
            "initial_state": "zeros",
            "recurrent_weights_init": "glorot_uniform",
            "forward_weights_init": list(WEIGHTS),
            "axis": "T",
        },
        0.2,
    )
    unit_opts = {
        "standardlstm": {"use_peepholes": True}, "basiclstm": {"forget_bias": 0.0},
        "nativelstm2": {"rec_weight_dropout": 0.0},
        "NativeLstm2": {"rec_weight_dropout": 0.0}, "rhn": {"depth": 2},
    }.get(unit)  # fmt: skip
    if unit_opts and net.chance(0.4):
        options["unit_opts"] = unit_opts
    if net.chance(0.1) and unit.lower() in ("gru", "basicrnn", "rhn"):
        init = net.add("init", {"class": "reduce", "mode": "mean", "axis": "T", "from": name}, None)
        init = net.add("init", {"class": "linear", "from": init, "n_out": size, "activation": "tanh"}, None)
        options["initial_state"] = init
    made = net.add(
        "rec",
        {"class": "rec", "unit": unit, **net.out_option(size), **options, "from": name},
        changed(shape, feature=size),
    )
    if net.chance(0.3):
        is_lstm = "lstm" in unit.lower()
        key = net.random.choice(["h", "c", "*"]) if is_lstm and unit not in ("lstmp",) else "*"
        n_out = 2 * size if is_lstm and key == "*" else size
        net.add(
            "state",
            {"class": "get_last_hidden_state", "from": made, "n_out": n_out, **({} if key == "*" else {"key": key})},
            changed(shape, time=None, feature=n_out),
        )
    return True


@production(2)
def attention(net: Net) -> bool:
    name = net.pick(is_frames)
    if not name:
        return False
    shape = net.shapes[name]
    r = net.random.random()
    if r < 0.4:
        options = net.maybe(
            {"attention_dropout": 0.0, "attention_left_only": True, "forward_weights_init": list(WEIGHTS)}
        )
        key_dim = net.random.choice([4, 8])
        size = net.random.choice([4, 6, 8])
        if net.chance(0.3):
            options["key_shift"] = net.add(
                "rpe",
                {
                    "class": "relative_positional_encoding",
                    "from": name,
                    "n_out": key_dim // 2,
                    **net.maybe({"fixed": True, "clipping": 3}),
                },
                None,
            )
        net.add(
            "sa",
            {
                "class": "self_attention",
                "from": name,
                "num_heads": 2,
                "total_key_dim": key_dim,
                "n_out": size,
                **options,
            },
            changed(shape, feature=size),
        )
    elif r < 0.7:
        base = (
            name
            if net.chance(0.5)
            else net.random.choice([n for n, s in net.shapes.items() if s.is_frames and s.time == shape.time])
        )
        energy = (
            net.add("en", {"class": "linear", "from": name, "activation": None, "n_out": 1}, None)
            if net.chance(0.5)
            else name
        )
        weights = net.add(
            "sos",
            {
                "class": "softmax_over_spatial",
                "from": energy,
                **net.maybe({"axis": "T", "energy_factor": 0.5, "use_time_mask": True}),
            },
            None,
        )
        net.add(
            "att",
            {"class": "generic_attention", "weights": weights, "base": base, **net.maybe({"auto_squeeze": False})},
            None,
        )
    else:
        net.add(
            "sos", {"class": "softmax_over_spatial", "from": name, **net.maybe({"axis": "T", "log_space": True})}, shape
        )
    return True


@production(3)
def subnetwork(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    inner, size = net.size(), net.size()
    r = net.random.random()
    activation = net.random.choice(["tanh", "relu"])
    sub: dict[str, Any] = {"a": {"class": "linear", "from": "data", "n_out": inner, "activation": activation}}
    if r < 0.3:
        sub["output"] = {"class": "softmax", "from": "a", "n_out": size}
    elif r < 0.5:
        sub["output"] = {"class": "linear", "from": ["a", f"base:{name}"], "n_out": size, "activation": None}
    elif r < 0.75:
        sub["output"] = {"class": "linear", "from": ["a", "data"], "n_out": size, "activation": None}
    else:
        sub["output"] = {"class": "linear", "from": ["nested", "a", "data"], "n_out": size, "activation": None}
        sub["nested"] = {
            "class": "subnetwork",
            "from": "a",
            "subnetwork": {"output": {"class": "layer_norm", "from": "data"}},
        }
    options = net.maybe({"trainable": False, "dropout": 0.0, "n_out": size, "name_scope": ["shared_sub", ""]}, 0.15)
    if options.get("name_scope") == "" and net.chance(0.7):
        del options["name_scope"]
    out = changed(shape, feature=size)
    only_inner = net.chance(0.15)
    made = net.add(
        "sub", {"class": "subnetwork", "from": name, "subnetwork": sub, **options}, None if only_inner else out
    )
    if only_inner or net.chance(0.3):
        net.add("subin", {"class": "copy", "from": f"{made}/a"}, changed(shape, feature=inner))
    if net.chance(0.2):
        copied = {key: dict(value) for key, value in sub.items()}
        net.add("sub", {"class": "subnetwork", "from": name, "subnetwork": copied, "reuse_params": made}, out)
    return True


@production(1)
def cond(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    size = net.size()
    flag = net.add("flag", {"class": "constant", "value": net.chance(0.5), "dtype": "bool"}, None)
    if net.extern_data and net.chance(0.5):  # or one that depends on the data, outside of loops
        axes = ["B", "T", "F"] if shape.time else ["B", "F"]
        total = net.add(
            "total",
            {"class": "reduce", "mode": "sum", "axis": [*axes, *(f"dim:{s}" for s in shape.static)], "from": name},
            None,
        )
        flag = net.add("flag", {"class": "compare", "kind": "greater", "value": 0.0, "from": total}, None)
    branches: list[dict[str, Any]] = [
        {"class": "linear", "from": name, "n_out": size, "activation": None},
        {"class": "linear", "from": name, "n_out": size, "activation": "relu"},
        {"class": "subnetwork", "from": name, "subnetwork": {
            "x": {"class": "linear", "from": "data", "n_out": size, "activation": "tanh"},
            "output": {"class": "eval", "from": "x", "eval": "source(0) * 2"},
        }},
    ]  # fmt: skip
    if shape.is_frames:
        heads = {"class": "self_attention", "num_heads": 1, "total_key_dim": 4, "n_out": size, "from": name}
        branches.append(heads)
        branches.append({"class": "rec", "unit": "nativelstm2", "n_out": size, "from": name})
    true, false = net.random.sample(branches, 2)
    net.add(
        "cond",
        {"class": "cond", "from": [], "condition": flag, "true_layer": true, "false_layer": false},
        changed(shape, feature=size),
    )
    return True


@production(2)
def masked(net: Net) -> bool:
    if "mask" not in net.extern_data:
        return False
    name = net.pick(lambda s: s.is_dense and s.time == "time")
    if not name:
        return False
    shape = net.shapes[name]
    if net.chance(0.5) or shape.static:
        unit: dict[str, Any] = {"class": "copy", "from": "data"}
        size = shape.feature
    else:
        size = net.size()
        unit = {"class": "linear", "from": "data", "n_out": size, "activation": "tanh"}
    made = net.add("mc", {"class": "masked_computation", "mask": "data:mask", "from": name, "unit": unit}, None)
    if net.chance(0.5) and not shape.static:
        net.add("um", {"class": "unmask", "from": made, "mask": "data:mask"}, changed(shape, feature=size))
    elif not shape.static:
        net.add(
            "lin",
            {"class": "linear", "from": made, "n_out": 4, "activation": None},
            changed(shape, time=f"masked{made}", feature=4),
        )
    return True
