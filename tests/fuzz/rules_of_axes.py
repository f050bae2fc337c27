"""Rules of the grammar: what changes, takes away, or adds axes and frames."""

from __future__ import annotations

from typing import Any

from tests.fuzz.grammar import Net, Shape, changed, has_time, is_dense, is_frames, production


@production(4)
def split_and_merge(net: Net) -> bool:
    name = net.pick(lambda s: s.is_dense and not s.static)
    if not name:
        return False
    shape = net.shapes[name]
    assert shape.feature
    factors = [(a, shape.feature // a) for a in range(1, shape.feature + 1) if shape.feature % a == 0]
    a, b = net.random.choice(factors)
    if shape.time and net.chance(0.15):
        axis, dims = "T", net.random.choice([(-1, 2), (-1, 4)])
        if shape.time.startswith("static"):
            return False
        options = {"pad_to_multiples": True, "pad_value": 0.0} if net.chance(0.3) else {}
        net.add(
            "sd",
            {"class": "split_dims", "from": name, "axis": axis, "dims": dims, **options},
            changed(shape, time=f"{shape.time}/{net.random.random()}", static=(dims[1],)),
        )
        return True
    dims = net.random.choice([(a, b), (a, b), (a, -1), (-1, b)])
    made = net.add(
        "sd",
        {"class": "split_dims", "from": name, "axis": net.random.choice(["F", "feature"]), "dims": dims},
        changed(shape, static=(a,), feature=b),
    )
    r = net.random.random()
    if r < 0.2 and a != b:
        net.add("sw", {"class": "swap_axes", "from": made, "axis1": f"dim:{a}", "axis2": "F"}, None)
    elif r < 0.5 and a != b:
        axes = net.random.choice(
            [
                ["F", f"dim:{a}"],
                [f"dim:{a}", "F"],
                *(["static", ["static:0", "static:1"]] if shape.time != "static" else []),
            ]
        )
        net.add(
            "merge", {"class": "merge_dims", "from": made, "axes": axes, **net.maybe({"keep_order": True}, 0.4)}, shape
        )
    return True


@production(2)
def merge(net: Net) -> bool:
    name = net.pick(lambda s: s.is_dense and len(s.static) == 1)
    if not name:
        return False
    shape = net.shapes[name]
    static = shape.static[0]
    if static == shape.feature:
        return False
    axes = net.random.choice(
        [
            ["F", f"dim:{static}"],
            [f"dim:{static}", "F"],
            ["spatial:-1", "feature"],
            *(["static"] if shape.time != "static" else []),
        ]
    )
    net.add(
        "merge",
        {"class": "merge_dims", "from": name, "axes": axes, **net.maybe({"keep_order": True}, 0.4)},
        changed(shape, static=(), feature=static * (shape.feature or 1)),
    )
    return True


@production(2)
def reduce(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    mode = net.random.choice(["mean", "max", "min", "sum", "logsumexp", "argmax"])
    axes = (
        ["F"]
        + (["T", "T", "T", "spatial"] if shape.time else [])
        + [f"dim:{s}" for s in shape.static if s != shape.feature]
    )
    axis = net.random.choice(axes)
    if mode == "argmax" and axis == "spatial":
        axis = "T"
    key = "axis" if net.chance(0.7) or mode == "argmax" else "axes"
    options = net.maybe({"use_time_mask": [True, False], "keep_dims": True}, 0.15)
    out: Shape | None = shape
    if axis == "F":
        out = None if mode != "argmax" else changed(shape, feature=None, sparse=shape.feature, dtype="int32")
        if mode == "argmax" and shape.static:
            out = None
    elif axis == "T":
        out = changed(shape, time=None)
    elif axis == "spatial":
        out = changed(shape, time=None, static=())
    else:
        out = changed(shape, static=())
    if (mode == "argmax" and axis != "F") or "keep_dims" in options:
        out = None
    net.add("red", {"class": "reduce", "from": name, "mode": mode, key: axis, **options}, out)
    return True


@production(2)
def cut(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    if shape.time and net.chance(0.4):
        options = net.random.choice(
            [
                {"slice_start": 1},
                {"slice_end": -1},
                {"slice_step": 2},
                {"slice_end": 3},
                {"slice_start": 1, "slice_end": -1},
            ]
        )
        net.add(
            "sl",
            {"class": "slice", "from": name, "axis": "T", **options},
            changed(shape, time=f"{shape.time}/{net.random.random()}"),
        )
        return True
    assert shape.feature
    if shape.feature < 4:
        return False
    options = net.random.choice(
        [
            {"slice_start": 1},
            {"slice_end": -1},
            {"slice_step": 2},
            {"slice_start": 1, "slice_end": -1},
            {"slice_start": -2},
        ]
    )
    size = len(
        range(shape.feature)[slice(options.get("slice_start"), options.get("slice_end"), options.get("slice_step"))]
    )
    net.add("sl", {"class": "slice", "from": name, "axis": "F", **options}, changed(shape, feature=size))
    return True


@production(2)
def slice_nd(net: Net) -> bool:
    name = net.pick(lambda s: s.is_dense and s.time is not None)
    if not name:
        return False
    shape = net.shapes[name]
    start = net.add(
        "start",
        {"class": "constant", "value": net.random.choice([0, 1, 2]), "dtype": "int32", "with_batch_dim": True},
        None,
    )
    size = net.random.choice([None, 2, 3])
    out = (
        changed(shape, time=f"{shape.time}/{net.random.random()}")
        if size is None
        else changed(shape, time=None, static=(size, *shape.static))
    )
    net.add(
        "snd",
        {"class": "slice_nd", "from": name, "start": start, "size": size, **net.maybe({"axis": "T", "min_size": 1})},
        out if size is None else (out if not shape.static else None),
    )
    return True


@production(2)
def shift(net: Net) -> bool:
    name = net.pick(has_time)
    if not name:
        return False
    shape = net.shapes[name]
    options = net.maybe({"pad": False, "adjust_size_info": False}, 0.3)
    if shape.dtype == "float32":
        options.update(net.maybe({"pad_value": 0.5}))
    changes = options.get("pad") is False or "adjust_size_info" not in options
    time = f"{shape.time}/{net.random.random()}" if changes else shape.time
    amount = net.random.choice([-2, -1, 1, 2])
    net.add(
        "sh",
        {"class": "shift_axis", "from": name, "axis": "T", "amount": amount, **options},
        changed(shape, time=time),
    )
    return True


@production(2)
def pad(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    axis = net.random.choice(["T", "spatial", "F"] if shape.time and not shape.static else ["F"])
    if axis == "F" and (shape.feature or 0) < 3:
        return False
    amounts = net.random.choice([(0, 1), (1, 0), (1, 1), (2, 0), 1])
    padding = amounts if net.chance(0.5) or amounts == 1 else [amounts]
    options = net.maybe(
        {
            "mode": ["constant", "reflect", "replication", "symmetric"],
            "value": 0.7,
            "handle_dynamic_dims": [True, False],
        },
        0.4,
    )
    total = 2 if amounts == 1 else sum(amounts)  # type: ignore[arg-type]
    out = (
        changed(shape, feature=(shape.feature or 0) + total)
        if axis == "F"
        else changed(shape, time=f"{shape.time}/{net.random.random()}")
    )
    net.add("pad", {"class": "pad", "from": name, "axes": axis, "padding": padding, **options}, out)
    return True


@production(2)
def frames_more(net: Net) -> bool:
    name = net.pick(is_frames)
    if not name:
        return False
    shape = net.shapes[name]
    longer = changed(shape, time=f"{shape.time}/{net.random.random()}")
    kind = net.random.choice(["postfix_in_time", "prefix_in_time"])
    which = "postfix" if kind.startswith("post") else "prefix"
    if net.chance(0.4):
        value: Any = net.add(
            "pv",
            {"class": "reduce", "from": name, "mode": net.random.choice(["max", "mean"]), "axis": "T"},
            changed(shape, time=None),
        )
    else:
        value = net.random.choice([0.0, -1.0])
    net.add(
        "fix",
        {
            "class": kind,
            "from": name,
            **({which: value} if net.chance(0.7) else {}),
            **net.maybe({"repeat": [1, 2, 3]}),
        },
        longer,
    )
    return True


@production(2)
def repeat(net: Net) -> bool:
    name = net.pick(lambda s: s.is_frames or (s.sparse is not None and s.time is not None))
    if not name:
        return False
    shape = net.shapes[name]
    count = net.random.choice([2, 3])
    if shape.feature and net.chance(0.3):
        net.add(
            "rep",
            {"class": "repeat", "from": name, "repetitions": count, "axis": "F"},
            changed(shape, feature=shape.feature * count),
        )
    elif net.chance(0.3) and shape.feature:
        net.add(
            "tile", {"class": "tile", "from": name, "multiples": {"F": 2}}, changed(shape, feature=shape.feature * 2)
        )
    elif net.chance(0.3) and shape.feature:
        kind = net.random.choice(["nn", "linear", "fill"])
        net.add(
            "resize",
            {"class": "resize", "from": name, "factor": count, "axis": "T", "kind": kind},
            changed(shape, time=f"{shape.time}/{net.random.random()}"),
        )
    else:
        net.add(
            "rep",
            {"class": "repeat", "from": name, "repetitions": count, **net.maybe({"axis": "T"}, 0.7)},
            changed(shape, time=f"{shape.time}/{net.random.random()}"),
        )
    return True


@production(2)
def expand(net: Net) -> bool:
    name = net.pick(is_dense)
    if not name:
        return False
    shape = net.shapes[name]
    axis = net.random.choice(["spatial", "T", "F", "feature"])
    made = net.add("exp", {"class": "expand_dims", "from": name, "axis": axis, **net.maybe({"dim": 1}, 0.1)}, None)
    if net.chance(0.5):
        which = (
            "auto"
            if net.chance(0.5)
            else ("F" if axis in ("F", "feature") else ("T" if shape.time is None else "auto"))
        )
        net.add("sq", {"class": "squeeze", "from": made, "axis": which}, shape)
    elif axis in ("F", "feature"):
        net.add("lin", {"class": "linear", "from": made, "activation": "tanh", "n_out": net.size()}, None)
    elif net.chance(0.5):
        net.add("red", {"class": "reduce", "from": made, "mode": net.random.choice(["max", "mean"]), "axis": "T"}, None)
    return True


@production(3)
def reinterpret(net: Net) -> bool:
    name = net.pick(lambda s: s.is_dense and s.time is not None)
    if not name:
        return False
    shape = net.shapes[name]
    r = net.random.random()
    if r < 0.4:
        net.add(
            "rd",
            {
                "class": "reinterpret_data",
                "from": name,
                net.random.choice(["enforce_time_major", "enforce_batch_major"]): True,
            },
            shape,
        )
    elif r < 0.6:
        others = [n for n, s in net.shapes.items() if s.time == shape.time]
        net.add("rd", {"class": "reinterpret_data", "from": name, "size_base": net.random.choice(others)}, shape)
    elif r < 0.8:
        perm = net.random.choice([{"B": "T", "T": "B"}, {"F": "T", "T": "F"}, {"B": "F", "F": "B"}])
        net.add("tr", {"class": "transpose", "from": name, "perm": perm}, shape if not shape.static else None)
    else:
        pair = net.random.choice([("B", "T"), ("T", "B"), ("T", "F")])
        net.add(
            "sw",
            {"class": "swap_axes", "from": name, "axis1": pair[0], "axis2": pair[1]},
            shape if "F" not in pair and not shape.static else None,
        )
    return True


@production(2)
def flatten(net: Net) -> bool:
    name = net.pick(is_frames)
    if not name:
        return False
    shape = net.shapes[name]
    size = net.size()
    r = net.random.random()
    if r < 0.5:
        flat = net.add(
            "flat",
            {"class": "flatten_batch", "from": name, **net.maybe({"batch_major": [True, False], "axis": "T"})},
            None,
        )
        lin = net.add("lin", {"class": "linear", "from": flat, "n_out": size, "activation": "tanh"}, None)
        net.add("unflat", {"class": "unflatten_batch", "from": lin}, changed(shape, feature=size))
    else:
        axes = net.random.choice([["B", "T"], ["T", "B"], "BT"])
        flat = net.add(
            "mbt", {"class": "merge_dims", "from": name, "axes": axes, **net.maybe({"keep_order": True})}, None
        )
        lin = net.add("lin", {"class": "linear", "from": flat, "n_out": size, "activation": "tanh"}, None)
        net.add("sbt", {"class": "split_batch_time", "from": lin, "base": name}, changed(shape, feature=size))
    return True


@production(2)
def positions(net: Net) -> bool:
    name = net.pick(lambda s: s.is_dense and s.time is not None)
    if not name:
        return False
    shape = net.shapes[name]
    r = net.random.random()
    if r < 0.25:
        net.add(
            "len",
            {
                "class": "length",
                "from": name,
                **net.maybe({"add_time_axis": True, "sparse": True, "dtype": "int64", "axis": "T"}, 0.2),
            },
            None,
        )
    elif r < 0.45:
        net.add(
            "rng",
            {
                "class": "range_in_axis",
                "from": name,
                "axis": net.random.choice(["T", "F"]),
                **net.maybe({"keepdims": True, "sparse": True, "unbroadcast": True, "dtype": "float32"}, 0.15),
            },
            None,
        )
        layer = net.layers[list(net.layers)[-1]]
        if "sparse" in layer:
            layer.pop("dtype", None)
    elif r < 0.65:
        net.add(
            "slm",
            {
                "class": "seq_len_mask",
                "from": name,
                "mask_value": net.random.choice([-1.0, 0.0]),
                **net.maybe({"axis": "T"}, 0.6),
            },
            shape,
        )
    elif r < 0.8 and not shape.static and (shape.feature or 0) % 2 == 0:
        net.add(
            "pos",
            {
                "class": "positional_encoding",
                "from": name,
                **({"add_to_input": True} if net.chance(0.6) else {"n_out": net.random.choice([4, 6])}),
            },
            None,
        )
    elif not shape.static:
        net.add(
            "cs",
            {
                "class": "cumsum",
                "from": name,
                **net.maybe({"axis": "T", "additional_left_summand_per_element": 1, "reverse": True}),
            },
            shape,
        )
    return True


@production(2)
def pieces(net: Net) -> bool:
    name = net.pick(lambda s: s.is_dense and (s.feature or 0) % 2 == 0)
    if not name:
        return False
    shape = net.shapes[name]
    assert shape.feature
    half = shape.feature // 2
    r = net.random.random()
    if r < 0.3:
        net.add(
            "ro",
            {"class": "reduce_out", "from": name, "mode": net.random.choice(["max", "mean"]), "num_pieces": 2},
            changed(shape, feature=half),
        )
    elif r < 0.5:
        options: Any = net.random.choice([{"num_splits": 2}, {"size_splits": (half, half)}, None])
        if options is None:
            dim = net.new_dim("half", half)
            options = {"out_dims": [dim, dim]}
        made = net.add("split", {"class": "split", "from": name, **options, **net.maybe({"axis": "F"})}, None)
        net.add("part", {"class": "copy", "from": f"{made}/{net.random.choice([0, 1])}"}, changed(shape, feature=half))
    elif r < 0.65:
        net.add(
            "gate",
            {"class": "gating", "from": name, "activation": net.random.choice(["tanh", "identity"])},
            changed(shape, feature=half),
        )
    elif r < 0.75:
        net.add("stack", {"class": "stack", "from": [name] * net.random.choice([2, 3])}, None)
    elif r < 0.85:
        net.add(
            "dct",
            {"class": "dct", "from": name, "type": net.random.choice([2, 3]), **net.maybe({"norm": "ortho"})},
            shape,
        )
    else:
        net.add("ws", {"class": "weighted_sum", "from": name, "axes": "F", **net.maybe({"keep_dims": True}, 0.2)}, None)
    return True


@production(2)
def gathering(net: Net) -> bool:
    name = net.pick(lambda s: s.is_dense and s.time is not None and not s.static)
    if not name:
        return False
    shape = net.shapes[name]
    r = net.random.random()
    if r < 0.4:
        pos = net.random.choice([0, 1, 2])
        axis = net.random.choice(["T", "T", "F"])
        if axis == "F" and (shape.feature or 0) < 3:
            return False
        if net.chance(0.4):
            pos = net.add("start", {"class": "constant", "value": pos, "dtype": "int32", "with_batch_dim": True}, None)
        out = changed(shape, time=None) if axis == "T" else None
        net.add("ga", {"class": "gather", "from": name, "position": pos, "axis": axis}, out)
    elif r < 0.6:
        made = net.add("topk", {"class": "top_k", "from": name, "axis": "F", "k": 2}, None)
        if net.chance(0.5):
            net.add("idx", {"class": "copy", "from": f"{made}/indices"}, None)
    elif r < 0.8:
        made = net.add(
            "chunk",
            {"class": "time_chunking", "from": name, "chunk_size": 3, "chunk_step": net.random.choice([2, 3])},
            None,
        )
        lin = net.add("lin", {"class": "linear", "from": made, "n_out": 4, "activation": "tanh"}, None)
        net.add("unchunk", {"class": "time_unchunking", "from": lin, "chunking_layer": made}, changed(shape, feature=4))
    else:
        net.add("swtf", {"class": "swap_time_feature", "from": name}, None)
    return True
