"""
Behaves to `returnn.sprint.interface` as RASR does when it is the main program: `fake_rasr_main.py MODE CONFIG`.

MODE is "train" (features with an alignment of each segment, for all epochs that are wanted), or "score" (outputs of all
segments, and scores of all frames, one after the other). It prints what it gets.
"""

import importlib
import sys

import numpy

LENGTHS = {"corpus/a": 7, "corpus/b": 4, "corpus/c": 5}
DIM, NUM_LABELS = 3, 4


def features_of(name):
    frames = numpy.arange(LENGTHS[name])
    return numpy.stack([frames % NUM_LABELS == i for i in range(DIM)]).astype("float32") + len(name) * 0.01


def say(*words):
    """Prints a line in one piece, as the training prints to the same stream from another thread."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def main():
    mode, config = sys.argv[1:]
    module = importlib.import_module("returnn.sprint.interface")
    if mode == "score":
        score(module, config)
        return
    names = module.getSegmentList("corpus", list(LENGTHS), config=config)
    first = next(names)  # before init, as RASR may want it
    module.init(inputDim=DIM, outputDim=NUM_LABELS, config=config, targetMode="target-alignment", cudaEnabled=False)
    name = first
    while name is not None:
        alignment = numpy.arange(LENGTHS[name]) % NUM_LABELS
        module.feedInputAndTarget(features=features_of(name), segmentName=name, alignment=alignment)
        say("fed", name)
        name = next(names, None)
    module.exit()


def score(module, config):
    current = {}
    scorer = module.init(
        name="Sprint.FeatureScorer", config=config, callback=lambda command: current[command], version_number=4
    )
    scorer.init(input_dim=DIM, output_dim=NUM_LABELS)
    assert scorer.get_feature_buffer_size() == -1
    for name in module.getSegmentList("corpus", list(LENGTHS), config=config):
        current["get_segment_name"] = name
        features = features_of(name)
        for t in range(features.shape[1]):
            scorer.add_feature(features[:, t], t)
        say("output", name, module.feedInputForwarding(features, segmentName=name)[:, 1].tolist())
        scorer.compute(features.shape[1])
        say("score", name, scorer.get_scores(1).tolist())
        scorer.reset(features.shape[1])
    scorer.exit()


if __name__ == "__main__":
    main()
