"""
What TensorFlow and PyTorch share: operations on named dims, in terms of operations on raw tensors.

The template backend says which dims come out. Here, the operands are brought into the layout that the raw operation
needs, with as few transposes, reshapes and masks as possible.
"""
