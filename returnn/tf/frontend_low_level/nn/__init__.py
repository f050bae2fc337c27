"""Operations of neural networks which TensorFlow, or a native kernel, has a fast way for."""
