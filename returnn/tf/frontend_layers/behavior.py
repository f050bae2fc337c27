"""Which behavior of layers recorded net dicts are made for."""

min_returnn_behavior_version = 21  # padding is added behind each sequence, dims match by themselves
