"""Layers which compute with features: name -> options, for property tests."""

import numpy

from returnn.tensor import Dim, batch_dim

FEATURES = Dim(3, name="features", kind=Dim.Types.Feature)

CASES = {
    "layer_norm": {"class": "layer_norm", "from": "data"},
    "norm_static": {"class": "norm", "axis": ["dim:4", "F"], "from": "data:image"},
    "batch_norm": {"class": "batch_norm", "from": "data", "masked_time": True},
    "batch_norm_option": {
        "class": "linear", "n_out": 3, "activation": None, "from": "data", "batch_norm": {"masked_time": True},
    },
    "batch_norm_init": {
        "class": "batch_norm", "gamma_init": 2.0, "beta_init": 0.5, "param_version": 1, "from": "data",
        "masked_time": True,
    },
    "batch_norm_forced": {
        "class": "batch_norm", "force_sample": True, "use_sample": 0.25, "from": "data", "masked_time": True,
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
    "conv_expanded": {
        "class": "conv", "filter_size": (3, 2), "padding": "same", "n_out": 4, "use_time_mask": True,
        "input_expand_dims": 1, "bias_init": 0.5, "from": "data",
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
    "transposed_conv_more": {
        "class": "transposed_conv", "filter_size": [3], "strides": [2], "n_out": 4, "padding": "valid",
        "output_padding": 1, "forward_weights_init": "glorot_normal", "bias_init": 0.5, "use_time_mask": True,
        "from": "data",
    },
    "transposed_conv_of_static": {
        "class": "transposed_conv", "filter_size": [3], "strides": [2], "n_out": 4, "in_spatial_dims": ["dim:4"],
        "output_padding": 0, "from": "data:image",
    },
    "transposed_conv_of_layers": {
        "class": "transposed_conv", "filter_size": [3], "strides": [2], "n_out": 4, "filter": "filters",
        "filter_perm": {"dim:6": "dim:3", "dim:3": "dim:4", "dim:4": "dim:6"}, "bias": "biases",
        "use_time_mask": True, "from": "data",
    },
    "filters": {"class": "variable", "shape": (6, 3, 4), "init": "glorot_normal"},
    "biases": {"class": "variable", "shape": (4,), "init": "glorot_normal"},
    "dct": {"class": "dct", "norm": "ortho", "from": "data"},
    "dct_longer": {"class": "dct", "type": 2, "n": 9, "from": "data"},
    "mel": {"class": "mel_filterbank", "sampling_rate": 8000, "fft_size": 10, "nr_of_filters": 3, "from": "data"},
    "projection": {"class": "complex_linear_projection", "nr_of_filters": 4, "from": "data"},
    "projection_init": {
        "class": "complex_linear_projection", "nr_of_filters": 4, "clp_weights_init": 0.5, "from": "data",
    },
    "complex": {"class": "alternating_real_to_complex", "from": "data"},
    "real": {"class": "complex_to_alternating_real", "from": "complex"},
    "sample": {"class": "slice", "axis": "F", "slice_start": 0, "slice_end": 1, "from": "data"},
    "stft": {"class": "stft", "frame_size": 2, "frame_shift": 1, "fft_size": 4, "from": "sample"},
    "istft": {
        "class": "istft", "use_time_mask": True, "frame_size": 2, "frame_shift": 1, "fft_size": 4, "from": "stft",
    },
    "stft_masked": {
        "class": "stft", "frame_size": 3, "frame_shift": 2, "in_spatial_dims": ["T"], "use_time_mask": True,
        "from": "data",
    },
    "stft_of_static": {
        "class": "stft", "frame_size": 2, "frame_shift": 1, "in_spatial_dims": ["dim:4"], "from": "data:image",
    },
    "istft_of_static": {
        "class": "istft", "frame_size": 2, "frame_shift": 1, "in_spatial_dims": ["dim:3"], "from": "stft_of_static",
    },
    "multi_stft_full": {
        "class": "multichannel_multiresolution_stft_layer", "frame_shift": 1, "frame_sizes": [3, 2],
        "fft_sizes": [4, 2], "nr_of_channels": 6, "use_rfft": False, "from": "data",
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
    "applied_lengths": {"class": "apply_length_distribution", "from": ["length_distribution", "normalized_lengths"]},
    "normalized_lengths": {"class": "normalize_length_scores", "from": "length_distribution"},
    "segment_alignment": {"class": "segment_alignment", "num_classes": 1, "window": 3, "from": "length_distribution"},
    "windows": {"class": "segment_input", "window": 2, "from": "data"},
    "unsegment": {"class": "unsegment_input", "from": "windows"},
    "filled": {"class": "fill_unused", "fill_value": 3.0, "from": "data"},
    "filled_features": {"class": "constant", "value": 0.5, "shape": [batch_dim, FEATURES, 2], "feature_dim": FEATURES},
    "copied": {"class": "copy", "extra_deps": ["gating"], "from": "data"},
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
    "activation": {"class": "activation", "activation": "relu", "from": "data"},
    "accumulated_mean": {"class": "accumulate_mean", "exp_average": 0.1, "initial_value": 0.5, "from": "data"},
    "median": {"class": "batch_median_pooling", "pool_size": 1, "from": "data"},
    "batch_softmax": {"class": "batch_softmax", "from": "data"},
    "global_lengths": {"class": "classes_to_length_distribution_global", "window": 3, "from": "data:ids"},
    "long_lengths": {
        "class": "classes_to_length_distribution_global", "window": 4, "min_length": 2, "weight_falloff": 0.5,
        "target_smoothing": 0.1, "broadcast_axis": "B", "from": "data:ids",
    },
    "combined_dims": {"class": "combine_dims", "axes": ["dim:4", "F"], "from": "data:image"},
    "flat_time": {"class": "flatten_time", "from": "data"},
    "statistics": {"class": "framewise_statistics", "sil_label_idx": 0, "from": []},
    "channels_stft": {
        "class": "multichannel_stft_layer", "frame_shift": 1, "frame_size": 2, "fft_size": 4, "nr_of_channels": 6,
        "from": "data",
    },
    "noise_masks": {"class": "linear", "activation": "sigmoid", "n_out": 18, "from": "data"},
    "mvdr": {
        "class": "mask_based_mvdrbeamforming", "diag_loading_coeff": 1.0, "from": ["channels_stft", "noise_masks_cut"],
    },
    "mvdr_filtered": {
        "class": "mask_based_mvdrbeamforming", "output_nan_filter": True, "nr_of_channels": 2,
        "from": ["channels_stft", "noise_masks_cut"],
    },
    "noise_masks_cut": {"class": "reinterpret_data", "size_base": "channels_stft", "from": "noise_masks_shorter"},
    "noise_masks_shorter": {"class": "slice", "axis": "T", "slice_end": -1, "from": "noise_masks"},
    "speech_masks": {"class": "concat", "from": [("noise_masks_cut", "F"), ("noise_masks_cut", "F")]},
    "gev": {"class": "mask_based_gevbeamforming", "postfilter_id": 1, "from": ["channels_stft", "speech_masks"]},
    "printed": {"class": "print", "summarize": 0, "from": "data"},
    "channels": {"class": "split_concatenated_multichannel", "nr_of_channels": 3, "from": "data"},
    "time_is_feature": {"class": "swap_time_feature", "from": "data"},
    "synthetic_gradient": {"class": "synthetic_gradient", "gradient": "gating_gradient", "from": "data"},
    "gating_gradient": {"class": "linear", "activation": None, "n_out": 6, "from": "data"},
    "tikhonov": {"class": "tikhonov_regularization", "from": "data"},
    "assigned": {"class": "variable_assign", "var": "counter", "value": "one"},
    # It is read before or after the assignment, so it has the same value then.
    "counter": {"class": "variable", "shape": (), "init": 1.0, "trainable": False},
    "one": {"class": "constant", "value": 1.0},
    "read": {"class": "variable_read", "var": "counter", "control_dependencies": ["assigned"]},
    "gradient": {"class": "gradient", "y": "activation", "x": "data"},
    "source": {"class": "source", "data_key": "image"},
    "step": {"class": "global_train_step"},
    "is_training": {"class": "train_flag"},
    "subnetwork": {
        "class": "subnetwork", "from": "data", "subnetwork": {
            "inner": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data"},
            "output": {"class": "combine", "kind": "add", "from": ["inner", "base:first_three"]},
        },
    },
    "subnetwork_dropout": {
        "class": "subnetwork", "dropout": 0.5, "dropout_noise_shape": {"*": None, "T": 1}, "from": "data",
        "subnetwork": {"output": {"class": "copy", "from": "data"}},
    },
    "dot_debug": {"class": "dot", "reduce": "F", "debug": True, "from": ["data", "data:vec"]},
    "first_three": {"class": "slice", "axis": "F", "slice_end": 3, "from": "data"},
}  # fmt: skip
# No batch dim, or not the one of the data, or about the whole batch.
NOT_PER_SEQUENCE = (
    "windows", "segments", "vec_mean", "accumulated_mean", "median", "batch_softmax", "global_lengths", "flat_time",
    "statistics", "batch_norm_forced", "long_lengths", "filters", "biases", "channels",
    "assigned", "counter", "one", "read", "step", "is_training",
)  # fmt: skip
