"""Linear maps: matrices, products of two sources, convolutions; and pooling, which shares their sizes."""
