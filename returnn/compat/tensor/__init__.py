"""Old names and old forms of arguments of `Tensor` and `Dim`."""
