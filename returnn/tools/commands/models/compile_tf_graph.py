"""Exports the computation graph of a config, for training, forwarding, search, or stepwise decoding."""

import argparse
import json

from returnn.engine.epochs import epoch_of_network
from returnn.engine.graph_formats import GRAPH_FORMATS
from returnn.tools.command_line import add_config, init_config
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import write_atomic
from returnn.util.python.optional_import import import_part
from returnn.util.system.command_parser import CommandParser


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "config", help="file of a config")
    parser.add_argument("--epoch", type=int, default=None, help="whose network. Default: the last one")
    parser.add_argument("--train", type=int, default=0, choices=(0, 1, -1), help="1: training; -1: a placeholder says")
    parser.add_argument("--eval", type=int, default=0, choices=(0, 1), help="1: with losses")
    parser.add_argument("--search", type=int, default=0, choices=(0, 1), help="1: with beam search")
    parser.add_argument("--device", default="cpu", help="cpu or gpu")
    formats = ", ".join(f"{suffix}: {what}" for suffix, what in GRAPH_FORMATS.items())
    parser.add_argument("--output_file", help=f"for the graph, by its suffix: {formats}")
    parser.add_argument("--output_file_model_params_list", help="for the names of the parameters of a checkpoint")
    parser.add_argument(
        "--rec_step_by_step", help="name of a loop: one step of it is added, with its state as variables"
    )
    parser.add_argument("--rec_step_by_step_output_file", help="for the names of all that belongs to the step, as JSON")
    parser.add_argument("--output_file_state_vars_list", help="for the names of these variables, if any")
    help = "the number of the step is such a variable, too; otherwise it is a placeholder"
    parser.add_argument("--update_i_in_graph", action="store_true", help=help)
    parser.add_argument("--summaries_tensor_name", help="adds a tensor of this name with all summaries")
    parser.add_argument("--verbosity", type=int, default=4, help="of the log, 1 to 5")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    for option in ("rec_step_by_step_output_file", "update_i_in_graph"):
        if getattr(args, option) and not args.rec_step_by_step:
            raise UserError(f"option '--{option}': needs '--rec_step_by_step', the name of a loop.")
    config = init_config(args, verbosity=args.verbosity, is_required=True, task="search" if args.search else "forward")
    export = import_part("returnn.tf.graph_export", needed_for="the tool 'compile-tf-graph'")
    mode = export.GraphMode(None if args.train < 0 else bool(args.train), bool(args.eval), bool(args.search))
    exported = export.build_graph(
        config,
        mode,
        epoch=args.epoch or epoch_of_network(config, None),
        device=args.device,
        summaries_name=args.summaries_tensor_name,
        step_of=export.StepOf(args.rec_step_by_step, args.update_i_in_graph) if args.rec_step_by_step else None,
    )
    print(exported)
    if args.output_file:
        export.write_graph(exported, args.output_file)
        print(f"wrote {args.output_file}")
    if args.output_file_model_params_list:
        write_atomic(args.output_file_model_params_list, "".join(f"{name}\n" for name in exported.params))
    if args.rec_step_by_step_output_file:
        write_atomic(args.rec_step_by_step_output_file, json.dumps(exported.step.as_dict(), indent=1) + "\n")
    if args.output_file_state_vars_list:
        state_vars = () if exported.step is None else exported.step.state_vars.values()
        write_atomic(args.output_file_state_vars_list, "".join(f"{name}\n" for name in state_vars))
