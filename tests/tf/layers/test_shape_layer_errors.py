"""What the author of a config reads if the options of a shape layer are wrong."""

import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from tests.tf.layers import feature_cases, shape_cases
from tests.tf.layers.layer_net import LayerNet, construct

CASES = {
    "reduce_mode": ({"class": "reduce", "mode": "summ", "axis": "T"}, "there is no mode 'summ'.\n  Did you"),
    "reduce_no_axis": ({"class": "reduce", "mode": "sum"}, "give either the option 'axis' or 'axes'"),
    "reduce_axis": (
        {"class": "reduce", "mode": "sum", "axis": "stag:enc"},
        "option 'axis': .*there is no axis 'stag:enc'",
    ),
    "argmax_two": ({"class": "reduce", "mode": "argmax", "axis": ["T", "F"]}, "mode 'argmax' goes over one dim"),
    "reduce_out_mode": (
        {"class": "reduce_out", "mode": "argmax", "num_pieces": 2},
        "there is no mode 'argmax'.\n  Did you mean 'max'",
    ),
    "squeeze": ({"class": "squeeze", "axis": "stag:enc"}, "'stag:enc' is no dim of the source .*\n.*allow_no_op=True"),
    "squeeze_size": ({"class": "squeeze", "axis": "F"}, "only a dim of size 1 can be removed"),
    "merge_dims": ({"class": "merge_dims", "axes": "stag:enc"}, "option 'axes': .*there is no axis 'stag:enc'"),
    "split_dims": ({"class": "split_dims", "axis": "F", "dims": (4, -1)}, r"cannot be split into \(4, -1\)"),
    "split_dims_two": ({"class": "split_dims", "axis": "F", "dims": (-1, -1)}, "-1 can only occur once"),
    "dot_one": ({"class": "dot", "reduce": "F"}, "two sources are required, not 1"),
    "dot_no_reduce": ({"class": "dot", "from": ["data", "data"]}, "option 'reduce' is required, or 'red1' and 'red2'"),
    "dot_both": (
        {"class": "dot", "reduce": "F", "red1": "F", "from": ["data", "data"]},
        "give either the option 'reduce', or 'red1' and 'red2'",
    ),
    "dot_missing": (
        {"class": "dot", "reduce": "T", "from": ["data", "data:vec"]},
        "option 'reduce': .*there is no axis 'T'",
    ),
    "reinterpret_role": ({"class": "reinterpret_data", "set_axes": {"X": "F"}}, "'X' is no role .*\n.*'B', 'T', 'F'"),
    "reinterpret_major": (
        {"class": "reinterpret_data", "enforce_batch_major": True, "enforce_time_major": True},
        "give either 'enforce_batch_major' or 'enforce_time_major'",
    ),
    "reinterpret_time_major": (
        {"class": "reinterpret_data", "enforce_time_major": True, "from": "data:vec"},
        "option 'enforce_time_major': .*there is no axis 'T'",
    ),
    "gather_nd": ({"class": "gather_nd", "position": "data:number", "from": "data:number"}, "no axis behind the batch"),
    "reinterpret_size": ({"class": "reinterpret_data", "size_base": "data:vec"}, "option 'size_base'.*other dims"),
    "slice_step": ({"class": "slice", "axis": "T", "slice_step": 0}, "option 'slice_step' is 0"),
    "concat": ({"class": "concat", "from": ["data"]}, r"expected pairs of source and axis, got \['data'\]"),
    "split": ({"class": "split"}, "give one of the options 'num_splits', 'size_splits', 'out_dims'"),
    "split_parts": ({"class": "split", "num_splits": 4}, "has no 4 equal parts"),
    "split_sizes": ({"class": "split", "size_splits": [1, 2]}, r"\[1, 2\] do not sum up to"),
    "split_dims_and_sizes": (
        {"class": "split", "size_splits": [2, 4], "out_dims": [Dim(4, name="a"), Dim(2, name="b")]},
        r"option 'out_dims': the sizes \[4, 2\] are not those of the other options, \[2, 4\]",
    ),
    "split_num_and_sizes": (
        {"class": "split", "num_splits": 3, "size_splits": [2, 3]},
        r"option 'num_splits' is 3, but 'size_splits' is \[2, 3\]",
    ),
    "transpose": ({"class": "transpose", "perm": {"T": "F", "B": "F"}}, "an axis of .* occurs twice"),
    "pad_mode": ({"class": "pad", "axes": "T", "padding": 1, "mode": "reflct"}, "Did you mean 'reflect'"),
    "window": ({"class": "window"}, "give the option 'window_size' or 'window_dim'"),
    "window_sizes": (
        {"class": "window", "window_size": 2, "window_dim": Dim(3, name="around")},
        r"option 'window_size' is 2, but 'window_dim' is around\(3\)",
    ),
    "window_padding": ({"class": "window", "window_size": 2, "padding": "full"}, "Possible: same, valid."),
    "fold": (
        {"class": "fold", "mode": "max", "in_spatial_dim": "T", "window_dim": "F"},
        "there is no mode 'max'.\n  Possible: mean, sum.",
    ),
    "fold_sides": (
        {"class": "fold", "mode": "sum", "in_spatial_dim": "T", "window_dim": "F", "window_left": 2, "window_right": 2},
        "'window_left' 2 and 'window_right' 2 .* do not make up",
    ),
    "fold_valid": (
        {
            "class": "fold", "mode": "sum", "in_spatial_dim": "T", "window_dim": "F", "window_left": 0,
            "padding": "valid",
        },
        "'window_left' and 'window_right' are for padding 'same'",
    ),
    "tile": (
        {"class": "tile", "multiples": {"T": 2}, "out_dims": {"F": Dim(6)}},
        "option 'out_dims': 'F' is not among the 'multiples'",
    ),
    "pad_dims": ({"class": "pad", "axes": "F", "padding": 1, "out_dims": [Dim(9)]}, "should have the size 8"),
    "prefix_size_base": (
        {"class": "prefix_in_time", "axis": "dim:4", "size_base": "data:image", "from": "data:image"},
        "option 'size_base': .*time:image.*is another dim of the source",
    ),
    "chunking": (
        {"class": "time_chunking", "chunk_size": 0, "chunk_step": 1},
        "option 'chunk_size': expected at least 1, got 0",
    ),
    "unchunking": ({"class": "time_unchunking", "chunking_layer": "data"}, "'data' is not of class 'time_chunking'"),
    "resize": ({"class": "resize", "factor": 2, "axis": "T", "kind": "cubik"}, "Did you mean 'cubic'"),
    "resize_labels": (
        {"class": "resize", "factor": 2, "axis": "T", "kind": "cubic", "from": "data:ids"},
        "option 'kind': 'cubic' is for floats, not for 'data:ids'",
    ),
    "resize_fill": ({"class": "resize", "factor": 2, "axis": "T", "fill_value": 1}, "only for kind 'fill'"),
    "unflatten_nd": (
        {"class": "unflatten_nd", "sizes": "data:sizes", "num_axes": 2, "out_dims": []},
        "has 0 dims, but num_axes is 2",
    ),
    "unflatten_nd_number": (
        {"class": "unflatten_nd", "sizes": "data:number", "num_axes": 2},
        r"option 'sizes': expected \[B, 2\], a size for each",
    ),
    "unflatten_nd_sizes": (
        {"class": "unflatten_nd", "sizes": "data:sizes", "num_axes": 3},
        r"option 'sizes': expected \[B, 3\], a size for each",
    ),
    "unflatten_nd_same": (
        {"class": "unflatten_nd", "sizes": "data:sizes", "num_axes": 2, "declare_same_sizes_as": {2: "data"}},
        "option 'declare_same_sizes_as': there is no new dim 2",
    ),
    "unflatten_batch": ({"class": "unflatten_batch"}, "nothing was merged into the batch"),
    "scatter_nd": ({"class": "scatter_nd", "position": "data:ids", "position_axis": "T"}, "give either 'output_dim"),
    "seq_len_mask": ({"class": "seq_len_mask", "mask_value": 0, "window_size": 1}, "give both of the options"),
    "range_sparse": (
        {"class": "range_in_axis", "axis": "T", "dtype": "float32", "sparse": True},
        "indices cannot be 'float32'",
    ),
    "top_k": ({"class": "top_k", "axis": "F"}, "give the option 'k' or 'k_dim'"),
    "search_sorted": (
        {"class": "search_sorted", "sorted_sequence": "data:ids", "values": "data:number", "side": "middle"},
        "Possible: left, right.",
    ),
    "elemwise_prod": ({"class": "elemwise_prod", "axes": "T"}, "'T' are no dims of fixed size"),
    "elemwise_prod_size": ({"class": "elemwise_prod", "axes": "F", "size": 7}, "option 'size' is 7, but the dims"),
    "weighted_sum_of_frames": ({"class": "weighted_sum", "axes": "T"}, "'T' are no dims of.*can slide: 'size'"),
    "weighted_sum": ({"class": "weighted_sum", "axes": "F", "padding": "full"}, "Possible: same, valid."),
    "switch": ({"class": "switch", "condition": "data", "true_from": 1, "false_from": 0}, "expected bools, but"),
    "math_norm": ({"class": "math_norm", "p": 2, "axis": "T", "axes": "F"}, "give either the option 'axis' or 'axes'"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error_names_layer_option_and_what_is_possible(name):
    options, text = CASES[name]
    options = options if options["class"] in ("switch", "search_sorted") else {"from": "data", **options}
    with pytest.raises(ConfigError, match=f"(?s)layer '?layer'?.*{text}") as error:
        LayerNet({"layer": options})
    assert len(str(error.value).splitlines()) <= 5


NETS = {**feature_cases.CASES, **shape_cases.ALL_CASES}
OPTIONS_WITH_AXES = (
    "axis", "axes", "axis1", "axis2", "reduce", "red1", "red2", "var1", "var2", "position_axis", "in_spatial_dims",
    "in_spatial_dim", "window_dim", "in_dims", "in_dim", "dropout_axis", "param_shape",
)  # fmt: skip
AXES = [(name, option) for name, desc in NETS.items() for option in OPTIONS_WITH_AXES if option in desc]
AXES += [("scaled_grad", "clip_max_axis"), ("dropout", "dropout_axis"), ("norm_static", "param_shape")]


@pytest.mark.parametrize(("name", "option"), [case for case in AXES if NETS[case[0]]["class"] != "expand_dims"])
def test_unknown_axis_names_its_option(name, option):
    options = {**NETS[name], option: ["stag:missing"] if isinstance(NETS[name].get(option), list) else "stag:missing"}
    net = {**NETS, "layer": options, "output": {"class": "copy", "from": "layer"}}
    with (
        tf.Graph().as_default(),
        rf.backend_ctx("tf"),
        pytest.raises(ConfigError, match=rf"layer '?layer'?.* option '{option}'"),
    ):
        construct(net)


FROM_PAST = {"pre": {"class": "combine", "kind": "add", "from": ["data:source", "prev:output"]}}


@pytest.mark.parametrize(
    "options", [{"window_right": 1}, {"window_left": 0}, {"window_right": 0, "stride": 2}], ids=str
)
def test_window_in_a_loop_sees_only_the_past(options):
    window = {"class": "window", "window_size": 3, "from": "pre", **options}
    output = {"class": "reduce", "mode": "sum", "axis": "stag:window", "from": "window"}
    loop = {"class": "rec", "from": "data", "unit": {**FROM_PAST, "window": window, "output": output}}
    with pytest.raises(ConfigError, match="frame by frame, a window has the frames up to the current one"):
        LayerNet({"loop": loop})


def test_cumsum_in_a_loop_cannot_be_reversed():
    cumsum = {"class": "cumsum", "reverse": True, "from": "pre"}
    loop = {"class": "rec", "from": "data", "unit": {**FROM_PAST, "output": cumsum}}
    with pytest.raises(ConfigError, match="option 'reverse': in a loop, frame by frame, those to come are not known"):
        LayerNet({"loop": loop})
