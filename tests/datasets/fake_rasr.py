"""
Behaves to `ExternSprintDataset` as RASR does: loads the module that the arguments name, and calls its functions.

Its own arguments: `--corpus=NAME:ORTH:NUM_FRAMES;...`, `--interface=trainer|control`, `--crash=begin|middle`,
`--hang=begin|middle` (makes the file `FAKE_RASR_HANGS` first), `--features=DIM`.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path

import numpy


def hang():
    Path(os.environ["FAKE_RASR_HANGS"]).touch()
    time.sleep(1000)


def main():
    opts = dict(arg.removeprefix("--").removeprefix("*.").split("=", 1) for arg in sys.argv[1:])
    if opts.get("crash") == "begin":
        print("configuration error: no corpus")
        sys.exit(3)
    if opts.get("hang") == "begin":
        hang()
    sys.path.insert(0, opts["pymod-path"])
    module = importlib.import_module(opts["pymod-name"])
    config = opts["pymod-config"]
    corpus = {name: (orth, int(num)) for name, orth, num in (s.split(":") for s in opts["corpus"].split(";"))}
    names = module.getSegmentList(corpusName="corpus", segmentList=list(corpus), config=config)
    dim = int(opts.get("features", 2))
    control = module.PythonControl.init(config=config) if opts.get("interface") == "control" else None
    if control:
        control.init_processing(input_dim=dim, output_dim=5)
    else:
        module.init(inputDim=dim, outputDim=5, config=config, targetMode="target-alignment")
    for i, name in enumerate(names):
        if opts.get("crash") == "middle" and i == 2:
            print("out of memory", file=sys.stderr)
            sys.exit(4)
        if opts.get("hang") == "middle" and i == 2:
            hang()
        orth, num_frames = corpus[name]
        features = numpy.full((2, num_frames), float(opts["seed"]))
        features[1] = numpy.arange(num_frames)
        alignment = numpy.arange(num_frames) % 5
        if control:
            soft = (numpy.repeat(numpy.arange(num_frames), 2), numpy.repeat(alignment, 2), numpy.ones(2 * num_frames))
            control.process_segment(name, orth, features, None, soft, speaker_name="me")
        else:
            module.feedInputAndTarget(features=features, segmentName=name, orthography=orth, alignment=alignment)
    (control or module).exit()


if __name__ == "__main__":
    main()
