"""Products of matrices that TensorFlow computes with more work than they need."""
