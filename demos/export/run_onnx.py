"""Runs a model of ONNX: python run_onnx.py MODEL.onnx IN.npz OUT.npz. Needs onnxruntime."""

import os
import sys

import numpy
import onnxruntime

TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(int32)": "int32", "tensor(int64)": "int64"}


def run(model, inputs):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    types = {entry.name: TYPES[entry.type] for entry in session.get_inputs()}
    if missing := [name for name in types if name not in inputs]:
        sys.exit(f"The inputs {missing} are missing: the model has {list(types)}.")
    feed = {name: inputs[name].astype(dtype) for name, dtype in types.items()}
    return dict(zip(names, session.run(names, feed), strict=True))


if __name__ == "__main__":
    if not os.path.isfile(sys.argv[2]):
        sys.exit(f"There is no file {sys.argv[2]!r} with the inputs.")
    numpy.savez(sys.argv[3], **run(sys.argv[1], numpy.load(sys.argv[2])))
