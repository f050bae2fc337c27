"""Operations of neural networks which are made of others, or which libraries have fast kernels for."""
