"""
Beam search over two models of ONNX, an encoder and one step of a decoder. Needs onnxruntime:

    python run_onnx_search.py ENCODER.onnx STEP.onnx IN.npz OUT.npz [--beam_size 12] [--exponent 1]

Outputs of the encoder are inputs of the step, by their names. All other inputs of the step are its state, 0 at the
beginning; an output "new_NAME" is the next value of the input "NAME". "label" is the last label, that of the end at the
beginning, and the output "log_probs" has those of the next one.
"""

import argparse

import numpy
import onnxruntime

TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(int32)": "int32", "tensor(int64)": "int64"}


def load(filename):
    return onnxruntime.InferenceSession(filename, providers=["CPUExecutionProvider"])


def call(session, feed):
    """:return: outputs by name; what the model does not ask for is left out"""
    wanted = {entry.name: TYPES[entry.type] for entry in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {n: feed[n].astype(t) for n, t in wanted.items()}), strict=True))


def search(encoder, step, inputs, *, beam_size, end, exponent, limit):
    """:return: labels of the best hypothesis of one sequence, and its log probability"""
    known = call(encoder, inputs)
    num_frames = int(next(value for name, value in inputs.items() if name.endswith(":size1"))[0])
    given = {"label", *known, *(entry.name for entry in step.get_inputs() if entry.name.endswith(":size1"))}
    state = {  # dims without a number are the batch, which is the beam here, and frames
        entry.name: numpy.zeros([beam_size, *(d if isinstance(d, int) else num_frames for d in entry.shape[1:])])
        for entry in step.get_inputs()
        if entry.name not in given
    }
    fixed = {name: numpy.repeat(value, beam_size, axis=0) for name, value in known.items()}
    fixed.update({name: numpy.full(beam_size, num_frames) for name in given if name.endswith(":size1")})
    labels, scores = numpy.zeros((beam_size, 0), int), numpy.array([0.0] + [-1e30] * (beam_size - 1))
    ended, lengths, last = numpy.zeros(beam_size, bool), numpy.zeros(beam_size, int), numpy.full(beam_size, end)
    for _ in range(limit[0] * num_frames + limit[1]):
        found = call(step, {**fixed, **state, "label": last})
        log_probs = numpy.where(ended[:, None], -1e30, found["log_probs"].astype(float))
        log_probs[ended, end] = 0.0  # what has ended stays as it is
        totals, lengths = scores[:, None] + log_probs, lengths + ~ended
        best = numpy.argsort(-(totals / lengths[:, None] ** exponent), axis=None, kind="stable")[:beam_size]
        came_from, last = numpy.unravel_index(best, totals.shape)
        scores, lengths = totals[came_from, last], lengths[came_from]
        labels = numpy.concatenate([labels[came_from], last[:, None]], axis=1)
        ended = ended[came_from] | (last == end)
        state = {name: found[f"new_{name}"][came_from] for name in state}
        if ended.all():
            break
    return labels[0, : lengths[0] - ended[0]], scores[0]


def main(args):
    models, inputs, out = (load(args.encoder), load(args.step)), dict(numpy.load(args.inputs)), {}
    options = {name: getattr(args, name) for name in ("beam_size", "end", "exponent", "limit")}
    lengths = next(value for name, value in inputs.items() if name.endswith(":size1"))
    for i, length in enumerate(lengths):
        one = {name: x[i : i + 1, :length] if x.ndim > 1 else x[i : i + 1] for name, x in inputs.items()}
        out[f"labels{i}"], out[f"score{i}"] = search(*models, one, **options)
    numpy.savez(args.outputs, **out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("encoder", "step", "inputs", "outputs"):
        parser.add_argument(name)
    parser.add_argument("--beam_size", type=int, default=12)
    parser.add_argument("--end", type=int, default=0, help="its label")
    help = "hypotheses are compared by log probability / (number of labels with the end) ** exponent"
    parser.add_argument("--exponent", type=float, default=0.0, help=help)
    help = "the search ends at A times the number of frames and B more labels"
    parser.add_argument("--limit", type=int, nargs=2, default=(2, 10), metavar=("A", "B"), help=help)
    main(parser.parse_args())
