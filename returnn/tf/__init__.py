"""Everything on TensorFlow: the frontend backend, layers, network, engine."""

from returnn.util.system.tensorflow_import import make_tensorflow_import_quick

make_tensorflow_import_quick()
