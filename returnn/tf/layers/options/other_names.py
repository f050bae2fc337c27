"""What is common elsewhere under another name: layer classes and losses of Keras, PyTorch and papers."""

from __future__ import annotations

from collections.abc import Mapping

_RECURRENT = "'rec', with 'unit': '{}'; 'direction': -1 goes from the last frame to the first"
_DENSE = "'linear', with 'n_out' and 'activation'"
_ACTIVATION = "'activation', with 'activation': '{}'; many layers have an option of that name"
_CONVOLUTION = "'conv', with 'filter_size' for each axis, such as (3,) or (3, 3), and 'padding'"
_ATTENTION = "'self_attention' has it all; 'dot', 'softmax_over_spatial' and 'generic_attention' are its parts"
_REDUCE = "'reduce', with 'mode': '{}' and 'axis'"
_SHAPE = "'merge_dims' and 'split_dims'"

LAYERS: Mapping[str, str] = {
    **{name: _RECURRENT.format(name) for name in ("lstm", "gru")},
    **dict.fromkeys(("rnn", "blstm", "bilstm", "lstm_cell"), _RECURRENT.format("lstm")),
    **dict.fromkeys(("dense", "fc", "ff", "fully_connected", "feed_forward"), _DENSE),
    **dict.fromkeys(
        ("embedding", "embed", "lookup"), "'linear' with 'activation': None and 'with_bias': False, from labels"
    ),
    **{name: _ACTIVATION.format(name) for name in ("relu", "tanh", "sigmoid", "gelu", "swish", "elu")},
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), _CONVOLUTION),
    **dict.fromkeys(("attention", "multi_head_attention", "multihead_attention", "mha"), _ATTENTION),
    **dict.fromkeys(("max_pool", "avg_pool", "maxpool", "pooling"), "'pool', with 'mode' and 'pool_size'"),
    **{name: f"'combine', with 'kind': '{name}'" for name in ("add", "sub", "mul")},
    **{name: _REDUCE.format(name) for name in ("mean", "sum", "max", "min")},
    **dict.fromkeys(("flatten", "view"), _SHAPE),
    "input": "nothing: 'from': 'data' is the input, and 'data:KEY' that of another data key",
    "lambda": "'eval', with an expression or a function",
}

_CROSS_ENTROPY = "'ce', cross entropy of labels, behind a layer 'softmax'"
_EDIT_DISTANCE = "'edit_distance', of hypotheses; the option 'search_metrics' has scores of texts"
LOSSES: Mapping[str, str] = {
    **dict.fromkeys(("crossentropy", "cross_entropy", "categorical_crossentropy", "nll", "xent"), _CROSS_ENTROPY),
    **dict.fromkeys(("sparse_categorical_crossentropy", "softmax", "log_loss", "ce_loss"), _CROSS_ENTROPY),
    **dict.fromkeys(("binary_crossentropy", "bce", "binary_ce"), "'bin_ce', cross entropy of probabilities"),
    **dict.fromkeys(
        ("mse_loss", "mean_squared_error", "l2", "squared_error"), "'mse', the mean of squared differences"
    ),
    **dict.fromkeys(("mae", "mean_absolute_error", "l1_loss"), "'mean_l1', the mean of absolute differences"),
    **dict.fromkeys(("wer", "cer", "ler", "word_error_rate"), _EDIT_DISTANCE),
    "ctc_loss": "'ctc', behind a layer 'softmax' with one class more than labels",
    **dict.fromkeys(
        ("rnnt", "transducer", "rnnt_loss"), "'as_is' on a layer that computes it: `returnn new NAME --kind transducer`"
    ),
}
