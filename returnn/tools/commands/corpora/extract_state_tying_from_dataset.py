"""Derives a HMM state tying from allophone alignments of a dataset."""

import argparse
from collections.abc import Sequence

from returnn.datasets.util.allophone import AllophoneState
from returnn.tools import state_tying
from returnn.tools.command_line import add_config, add_dataset, init_config, open_dataset
from returnn.util.errors import UserError, check_known
from returnn.util.files.atomic_file import write_atomic
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted

_ACTIONS = ("extract", "make")


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, help="file of a config, for its datasets")
    parser.add_argument("--action", help="extract: from labels of a dataset; make: by a rule. Default: by the others")
    add_dataset(parser, help="It has labels of frames as 'classes'")
    parser.add_argument("--corpus", help="Bliss file: what was said")
    parser.add_argument("--lexicon", help="Bliss lexicon; of each word, the first pronunciation counts")
    parser.add_argument("--silence", type=int, help="label of silence in the dataset")
    parser.add_argument("--context", type=int, default=1, help="phones before and after that an allophone depends on")
    parser.add_argument("--hmm_states", type=int, default=3, help="states of each allophone but silence")
    parser.add_argument("--state_tying_type", help=f"what is made: {', '.join(state_tying.TYING_KINDS)}")
    parser.add_argument("--state_tying_output", help="the new file")
    parser.add_argument("--allo_add_all", action="store_true", help="of what is made: all contexts, also unseen ones")
    parser.add_argument("--print_seq", action="store_true", help="tag and text of each sequence")
    parser.add_argument("--print_allos", action="store_true", help="the states of each sequence")
    parser.add_argument("--print_targets", action="store_true", help="the labels of each sequence")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if args.lexicon is None:
        raise UserError("option '--lexicon' is required.")
    action = args.action or ("make" if args.state_tying_type else "extract")
    check_known("action", action, _ACTIONS, where="option '--action'")
    tying = _make(args) if action == "make" else _extract(args)
    print(f"{counted(len(tying), 'state')}, {counted(len(set(tying.values())), 'class')}")
    if args.state_tying_output:
        write_atomic(args.state_tying_output, state_tying.tying_text(tying))
        print(f"wrote {args.state_tying_output}")


def _extract(args: argparse.Namespace) -> dict[str, int]:
    if args.corpus is None:
        raise UserError("option '--corpus' is required: what was said in the sequences of the dataset.")
    for option in ("state_tying_type", "allo_add_all"):
        if getattr(args, option):
            raise UserError(f"option '--{option}' is for '--action make'.")
    config = init_config(args, verbosity=1)
    texts = state_tying.texts_of_corpus(args.corpus)

    def show(tag: str, states: Sequence[AllophoneState], labels: Sequence[int]) -> None:
        if args.print_seq:
            print(f"{tag}: {texts[tag].strip()}")
        if args.print_allos:
            print(f"{tag}: {' '.join(state.format() for state in states)}")
        if args.print_targets:
            print(f"{tag}: {' '.join(map(str, labels))}")

    found = state_tying.labels_of_states(
        open_dataset(config, args.dataset),
        texts,
        state_tying.state_generator(args.lexicon, num_states=args.hmm_states, context=args.context),
        silence=args.silence,
        show=show,
    )
    for tag, reason in list(found.skipped.items())[:3]:
        print(f"left out {tag}: {reason}")
    if not found.num_seqs:
        raise UserError(
            "in no sequence are there as many labels as states.\n"
            "  Look at '--hmm_states' and '--silence', and at sequences with '--print_allos --print_targets'."
        )
    print(
        f"{counted(found.num_seqs, 'sequence')}, {len(found.skipped)} left out, "
        f"{counted(found.num_ambiguous(), 'state')} with several labels"
    )
    return found.tying()


def _make(args: argparse.Namespace) -> dict[str, int]:
    kind = args.state_tying_type or "monophone"
    check_known("type", kind, state_tying.TYING_KINDS, where="option '--state_tying_type'")
    generator = state_tying.state_generator(args.lexicon, num_states=args.hmm_states, context=args.context)
    if args.allo_add_all:
        states = state_tying.all_states(generator.lexicon, num_states=args.hmm_states, context=args.context)
        return state_tying.tie(states, kind)
    silence = generator.si_lemma["orth"]
    texts = list(state_tying.texts_of_corpus(args.corpus).values()) if args.corpus else sorted(generator.lexicon.lemmas)
    pronounced = [text for text in texts if args.corpus or generator.lexicon.lemmas[text]["phons"]]
    return state_tying.tie(state_tying.states_of_words(generator, [silence, *pronounced]), kind)
