"""Layers which compute with features: name -> options, for property tests."""

import numpy

CASES = {
    "layer_norm": {"class": "layer_norm", "from": "data"},
    "norm_static": {"class": "norm", "axis": ["dim:4", "F"], "from": "data:image"},
    "batch_norm": {"class": "batch_norm", "from": "data", "masked_time": True},
    "batch_norm_option": {
        "class": "linear", "n_out": 3, "activation": None, "from": "data", "batch_norm": {"masked_time": True},
    },
    "gating": {"class": "gating", "activation": "tanh", "from": "data"},
    "dropout": {"class": "dropout", "dropout": 0.5, "from": "data"},
    "conv": {
        "class": "conv", "filter_size": (3,), "padding": "same", "n_out": 4, "use_time_mask": True, "from": "data",
        "in_spatial_dims": ["T"], "activation": "relu", "with_bias": True,
    },
    "conv_groups": {
        "class": "conv", "filter_size": (2,), "padding": "same_static", "strides": 2, "groups": 3, "n_out": 9,
        "use_time_mask": True, "with_bias": True, "from": "data",
    },
    "conv_2d": {
        "class": "conv", "filter_size": (2, 3), "padding": "same", "n_out": 4, "use_time_mask": True, "with_bias": True,
        "input_add_feature_dim": True, "from": "data",
    },
    "conv_split": {
        "class": "conv", "filter_size": (2, 2), "padding": "same", "n_out": 4, "use_time_mask": True, "with_bias": True,
        "input_split_feature_dim": 3, "from": "data",
    },
    "conv_valid": {
        "class": "conv", "filter_size": (2,), "padding": "valid", "n_out": 4, "with_bias": True, "from": "data",
        "dilation_rate": 2,
    },
    "conv_of_static": {
        "class": "conv", "filter_size": (2,), "padding": "valid", "n_out": 4, "with_bias": True, "from": "data:image",
        "in_spatial_dims": ["dim:4"],
    },
    "pool_max": {
        "class": "pool", "mode": "max", "pool_size": (2,), "padding": "same_static", "use_time_mask": True,
        "from": "data",
    },
    "pool_avg": {
        "class": "pool", "mode": "avg", "pool_size": (3,), "strides": 1, "padding": "same", "use_time_mask": True,
        "from": "data",
    },
    "transposed_conv": {
        "class": "transposed_conv", "filter_size": [3], "strides": [2], "n_out": 4, "from": "data",
        "use_time_mask": True,
    },
    "transposed_conv_2d": {
        "class": "transposed_conv", "filter_size": [2, 2], "n_out": 4, "use_time_mask": True, "from": "data:image",
    },
    "dct": {"class": "dct", "norm": "ortho", "from": "data"},
    "dct_longer": {"class": "dct", "type": 2, "n": 9, "from": "data"},
    "mel": {"class": "mel_filterbank", "sampling_rate": 8000, "fft_size": 10, "nr_of_filters": 3, "from": "data"},
    "projection": {"class": "complex_linear_projection", "nr_of_filters": 4, "from": "data"},
    "complex": {"class": "alternating_real_to_complex", "from": "data"},
    "real": {"class": "complex_to_alternating_real", "from": "complex"},
    "sample": {"class": "slice", "axis": "F", "slice_start": 0, "slice_end": 1, "from": "data"},
    "stft": {"class": "stft", "frame_size": 2, "frame_shift": 1, "fft_size": 4, "from": "sample"},
    "istft": {
        "class": "istft", "use_time_mask": True, "frame_size": 2, "frame_shift": 1, "fft_size": 4, "from": "stft",
    },
    "multi_stft": {
        "class": "multichannel_multiresolution_stft_layer", "frame_shift": 2, "frame_sizes": [3, 2],
        "fft_sizes": [4, 4], "nr_of_channels": 6, "pad_last_frame": True, "from": "data",
    },
    "first_frames": {"class": "first_t_frames_noise_estimator", "nr_of_frames": 2, "from": "data"},
    "wiener": {
        "class": "parametric_wiener_filter", "filter_input": "data", "noise_estimation": "first_frames",
        "l_overwrite": 0.5, "p_overwrite": 2.0, "q_overwrite": 1.0,
    },
    "masked_signal": {"class": "signal_masking", "signal": "data", "mask": "layer_norm"},
    "tile_features": {"class": "tile_features", "repetitions": 2, "from": "data"},
    "segments": {"class": "classes_to_segments", "num_classes": 5, "window": 3, "from": "data:ids"},
    "length_distribution": {"class": "classes_to_length_distribution", "window": 3, "from": "data:ids"},
    "applied_lengths": {"class": "apply_length_distribution", "from": ["segments", "length_distribution"]},
    "normalized_lengths": {"class": "normalize_length_scores", "from": "length_distribution"},
    "segment_alignment": {"class": "segment_alignment", "num_classes": 5, "window": 3, "from": "segments"},
    "windows": {"class": "segment_input", "window": 2, "from": "data"},
    "unsegment": {"class": "unsegment_input", "from": "windows"},
    "filled": {"class": "fill_unused", "fill_value": 3.0, "from": "data"},
    "constant": {"class": "constant", "value": numpy.array([1.0, 2.0], "float32"), "with_batch_dim": True},
    "variable": {"class": "variable", "shape": (6,), "add_batch_axis": True, "init": 2.0},
    "scaled_grad": {"class": "scaled_grad", "scale": -1.0, "from": "data"},
    "identity": {"class": "identity", "from": "data", "control_dependencies": ["gating"]},
    "vec_mean": {"class": "reduce", "mode": "mean", "axis": ["B", "F"], "from": "constant"},
    "cond": {
        "class": "cond", "condition": {"class": "compare", "kind": "greater", "value": 0, "from": "vec_mean"},
        "true_layer": {"class": "linear", "n_out": 3, "activation": None, "from": "data"},
        "false_layer": {"class": "linear", "n_out": 3, "activation": "relu", "from": "data"},
    },
    "softmax": {"class": "softmax", "n_out": 6, "from": "data"},
    "cross_entropy_layer": {
        "class": "sparse_softmax_cross_entropy_with_logits", "logits": "logits", "targets": "data:ids",
    },
    "logits": {"class": "linear", "n_out": 5, "activation": None, "from": "data"},
    "loss_layer": {"class": "loss", "loss_": "ce", "target_": "ids", "from": "probs"},
    "probs": {"class": "softmax", "n_out": 5, "from": "data"},
    "ctc": {"class": "ctc_loss", "logits": "softmax", "targets": "short"},
    "short": {"class": "slice", "axis": "T", "slice_start": 0, "slice_end": 1, "from": "data:ids"},
    "soft_alignment": {"class": "fast_bw", "align_target": "ctc", "align_target_key": "ids", "from": "posteriors"},
    "posteriors": {"class": "linear", "activation": "log_softmax", "n_out": 6, "from": "data"},
    "alignment": {
        "class": "forced_align", "align_target": "short", "topology": "rna", "input_type": "log_prob",
        "from": "posteriors",
    },
}  # fmt: skip
NOT_PER_SEQUENCE = ("windows", "vec_mean")  # no batch dim, or not the one of the data
