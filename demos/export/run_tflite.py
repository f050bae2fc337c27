"""Runs a TensorFlow Lite model by ai-edge-litert or TensorFlow: python run_tflite.py MODEL.tflite IN.npz OUT.npz."""

import os
import sys

import numpy

try:
    from ai_edge_litert.interpreter import Interpreter
except ImportError:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what is an error comes as one of Python, too
    stderr = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # while TensorFlow is imported, it logs whatever the level
    try:
        import tensorflow
    finally:
        os.dup2(stderr, 2)

    Interpreter = tensorflow.lite.Interpreter


def run(model, inputs):
    runner = Interpreter(model_path=model).get_signature_runner("serving_default")
    details = runner.get_input_details()
    if missing := [name for name in details if name not in inputs]:
        sys.exit(f"The inputs {missing} are missing: the model has {list(details)}.")
    if {len(inputs[name]) for name in details} != {1}:
        sys.exit("TensorFlow Lite takes one sequence at a time.")
    return runner(**{name: inputs[name].astype(about["dtype"]) for name, about in details.items()})


if __name__ == "__main__":
    if not os.path.isfile(sys.argv[2]):
        sys.exit(f"There is no file {sys.argv[2]!r} with the inputs.")
    numpy.savez(sys.argv[3], **run(sys.argv[1], numpy.load(sys.argv[2])))
