"""
Behaves to `returnn.sprint.error_signals` as RASR does. Its own arguments: `--version=INT`, `--crash`,
`--visit`: it goes through its corpus by itself, as older versions do, with our layer in its network.

All label sequences of the labels 0 and 1 are possible, each frame has a score of 0.5. The loss is the cross entropy
with label 0.
"""

import importlib
import os
import sys

import numpy


def answer(command, *args):
    if command == "version":
        return int(OPTIONS.get("version", 4))
    if OPTIONS.get("crash"):
        print("out of memory")
        sys.stdout.flush()
        os._exit(4)
    (name, *args) = args
    if not name.startswith("seq"):
        raise KeyError(f"there is no segment {name!r}")
    if command == "get_loss_and_error_signal":
        length, scores = args
        assert scores.shape[0] == length
        error_signal = numpy.exp(scores)
        error_signal[:, 0] -= 1
        return -scores[:, 0].sum(), error_signal
    assert command == "export_allophone_state_fsa_by_segment_name", command
    edges = [(0, 1, 0), (0, 1, 1), (1, 1, 0), (1, 1, 1)]
    return 2, 4, numpy.array(edges, dtype="uint32").T.reshape(-1), numpy.full(4, 0.5, dtype="float32")


def visit_corpus(module):
    config = OPTIONS["pymod-config"]
    control = module.init(name="Sprint", reference=None, config=config, version_number=4)
    layer = module.SprintNnPythonLayer(config=config)
    layer.setInputDimension(0, 1)
    layer.setOutputDimension(5)
    layer.initializeNetworkParameters()
    control.init_processing(input_dim=1, output_dim=5)
    for name in module.getSegmentList(corpusName="corpus", segmentList=["seq0", "seq1", "seq2"], config=config):
        length = {"seq0": 5, "seq1": 3, "seq2": 4}[name] if OPTIONS.get("lengths") is None else 1
        control.init_segment(name)
        control.process_segment(name=name, orthography="", features=numpy.zeros((1, length)))
        posteriors = layer.forward((numpy.zeros((1, length)),))
        assert posteriors.shape == (5, length)
        (of_input,) = layer.backpropagate(posteriors - numpy.eye(5)[:, :1])
        assert of_input.shape == (1, length)
        control.notify_segment_loss(name, -numpy.log(posteriors[0]).sum())
    layer.finalize()
    control.exit()


def main():
    sys.path.insert(0, OPTIONS["pymod-path"])
    module = importlib.import_module(OPTIONS["pymod-name"])
    if OPTIONS.get("visit"):
        visit_corpus(module)
        return
    control = module.init(name="Sprint", reference=None, config=OPTIONS["pymod-config"], version_number=4)
    control.run_control_loop(callback=answer)
    control.exit()


if __name__ == "__main__":
    arguments = [arg.removeprefix("--").removeprefix("*.") for arg in sys.argv[1:]]
    OPTIONS = dict(arg.split("=", 1) if "=" in arg else (arg, "yes") for arg in arguments)
    main()
