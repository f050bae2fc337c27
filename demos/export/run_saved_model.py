"""Runs a SavedModel: python run_saved_model.py MODEL IN.npz OUT.npz. Needs TensorFlow."""

import logging
import os
import sys

import numpy

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what is an error comes as one of Python, too
stderr = os.dup(2)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # while TensorFlow is imported, it logs whatever the level
try:
    import tensorflow as tf
finally:
    os.dup2(stderr, 2)
logging.getLogger("absl").setLevel("ERROR")  # lengths, "data:size1", have names that Python has not


def run(model, inputs):
    signature = tf.saved_model.load(model).signatures["serving_default"]
    known = signature.structured_input_signature[1]
    if missing := [name for name in known if name not in inputs]:
        sys.exit(f"The inputs {missing} are missing: the model has {list(known)}.")
    outputs = signature(**{name: tf.constant(inputs[name], spec.dtype) for name, spec in known.items()})
    return {name: value.numpy() for name, value in outputs.items()}


if __name__ == "__main__":
    if not os.path.isfile(sys.argv[2]):
        sys.exit(f"There is no file {sys.argv[2]!r} with the inputs.")
    numpy.savez(sys.argv[3], **run(sys.argv[1], numpy.load(sys.argv[2])))
