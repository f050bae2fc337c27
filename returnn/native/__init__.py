"""
Kernels in C++ for what is slow as a graph of operations, such as a recurrent layer over all frames.

The package knows no framework. `src` has the kernels, with a plain C interface on arrays; `build` compiles them once,
`library` loads and calls them. TensorFlow and PyTorch get one operation per kernel, made from its signature: in
`returnn.tf.frontend_low_level.kernels.native` and `returnn.torch.frontend.native`. See `docs/native.md`.
"""
