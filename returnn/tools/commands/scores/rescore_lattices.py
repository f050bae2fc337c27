"""Rescores word lattices of HTK with an exported language model."""

import argparse
import os

from returnn.datasets.util.vocab_file import read_vocab_file
from returnn.engine.hypothesis_files import check_file_format, write_hypotheses
from returnn.tools.word_lattice import Scales, best_paths, parse_lattice
from returnn.util.errors import UserError
from returnn.util.files.text_file import iter_lines
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(
        description=__doc__,
        epilog="Scores are natural logs: SCALE * acoustic + SCALE * language model + penalty per word.",
    )
    parser.add_argument("model", help="SavedModel of `export-model`, whose output are probabilities of words")
    parser.add_argument("vocab", help="file of its vocabulary")
    parser.add_argument("lattices", nargs="+", help="files in the format of HTK (SLF); may be compressed")
    parser.add_argument("--output", required=True, help="new file with the words of the best paths, by the lattice")
    parser.add_argument("--format", default="py", help="of that file, as `search_output_file_format`")
    parser.add_argument("--n_best", type=int, default=1, help="so many paths of each lattice, with their scores")
    parser.add_argument("--beam", type=int, default=16, help="so many histories are kept at each node")
    parser.add_argument("--am_scale", type=float, default=1.0, help="of the acoustic scores in the lattice")
    parser.add_argument("--lm_scale", type=float, default=1.0, help="of the language model")
    parser.add_argument("--old_lm_scale", type=float, default=0.0, help="of the language scores in the lattice")
    parser.add_argument("--word_penalty", type=float, default=0.0, help="added for each word")
    parser.add_argument("--data", default="data", help="data key of the words of the model")
    parser.add_argument("--output_layer", default="output", help="layer with the probabilities")
    parser.add_argument("--end", default="</s>", help="word of the end of a sentence")
    parser.add_argument(
        "--begin", help="word that inputs begin with. Default: the network looks at the words before each frame itself"
    )
    parser.add_argument("--unknown", help="word for those that the vocabulary has not. Default: they are an error")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    check_file_format(args.format)
    if not 1 <= args.n_best <= args.beam:
        raise UserError(f"option '--n_best': {args.n_best} has to be from 1 to '--beam', {args.beam}.")
    model = import_part("returnn.tf.exported_lm", needed_for="the tool 'rescore-lattices'").ExportedLanguageModel(
        args.model,
        read_vocab_file(args.vocab),
        data=args.data,
        output=args.output_layer,
        begin=args.begin,
        end=args.end,
        unknown=args.unknown,
    )
    scales = Scales(args.am_scale, args.lm_scale, args.old_lm_scale, args.word_penalty)
    results = {}
    for file in args.lattices:
        lattice = parse_lattice(iter_lines(file), name=os.path.basename(file).split(".")[0])
        paths = best_paths(lattice, model.log_probs, scales=scales, beam=args.beam, end=args.end)
        if lattice.name in results:
            raise UserError(f"{file!r}: there are two lattices with the name {lattice.name!r}.")
        texts = [(score, " ".join(words)) for score, words in paths[: args.n_best]]
        results[lattice.name] = texts if args.n_best > 1 else texts[0][1]
    write_hypotheses(args.output, results, args.format)
    print(f"wrote {args.output}: {len(results)} lattices")
