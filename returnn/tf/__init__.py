"""Everything on TensorFlow: the frontend backend, layers, network, engine."""
