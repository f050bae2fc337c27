"""
Behaves to `returnn.sprint.error_signals` as RASR does. Its own arguments: `--version=INT`, `--crash`.

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


def main():
    sys.path.insert(0, OPTIONS["pymod-path"])
    module = importlib.import_module(OPTIONS["pymod-name"])
    control = module.init(name="Sprint", reference=None, config=OPTIONS["pymod-config"], version_number=4)
    control.run_control_loop(callback=answer)
    control.exit()


if __name__ == "__main__":
    arguments = [arg.removeprefix("--").removeprefix("*.") for arg in sys.argv[1:]]
    OPTIONS = dict(arg.split("=", 1) if "=" in arg else (arg, "yes") for arg in arguments)
    main()
