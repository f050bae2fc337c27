"""Runs a frozen graph: python run_frozen_graph.py MODEL.pb IN.npz OUT.npz. Needs TensorFlow."""

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

tf1 = tf.compat.v1


def run(model, inputs):
    with open(model, "rb") as file, tf.Graph().as_default() as graph:
        tf1.import_graph_def(tf1.GraphDef.FromString(file.read()), name="")
        outputs = {op.name.removeprefix("outputs/"): op.outputs[0] for op in graph.get_operations()}
        outputs = {name: x for name, x in outputs.items() if x.op.name.startswith("outputs/")}
        known = {op.name for op in graph.get_operations() if op.type == "Placeholder"}
        names = {name: name.replace(":", "_") for name in inputs}
        with tf1.Session() as session:
            return session.run(outputs, {f"{op}:0": inputs[name] for name, op in names.items() if op in known})


if __name__ == "__main__":
    if not os.path.isfile(sys.argv[2]):
        sys.exit(f"There is no file {sys.argv[2]!r} with the inputs.")
    numpy.savez(sys.argv[3], **run(sys.argv[1], numpy.load(sys.argv[2])))
