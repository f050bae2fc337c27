"""Runs a model of ONNX: python run_onnx.py MODEL.onnx IN.npz OUT.npz. Needs onnxruntime."""

import sys

import numpy
import onnxruntime


def run(model, inputs):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    known = {entry.name for entry in session.get_inputs()}
    return dict(zip(names, session.run(names, {key: x for key, x in inputs.items() if key in known}), strict=True))


if __name__ == "__main__":
    numpy.savez(sys.argv[3], **run(sys.argv[1], numpy.load(sys.argv[2])))
