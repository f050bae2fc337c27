"""Everything on TensorFlow: the frontend backend, layers, network, engine."""

from returnn.util.system.quiet_import import make_tensorflow_import_quiet

make_tensorflow_import_quiet()
