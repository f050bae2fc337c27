"""Saves attention weights of a model, per sequence, for later plotting."""

import argparse

from returnn.config.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.tools.attention_weights import frames_of_encoder, hdf_writer, npy_writer, with_options
from returnn.tools.command_line import add_config, init_config, open_dataset
from returnn.tools.layer_outputs import SeqOutputs, layer_outputs, reset_seq_order, seq_range
from returnn.util.errors import UserError, check_known
from returnn.util.files.literal import literal_eval
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted

_FORMATS = ("npy", "hdf")
_DEFAULT_LAYERS = ("att_weights",)


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    add_config(parser, "config_file", help="file of a config")
    parser.add_argument("--epoch", type=int, help="of the model. Default: the newest")
    parser.add_argument("--data", default="train", help="name of a dataset of the config, or a dict, or a HDF file")
    parser.add_argument("--do_search", action="store_true", help="search; without it, the loop gets the references")
    parser.add_argument("--beam_size", type=int, default=12, help="with --do_search, of all choices")
    parser.add_argument("--dump_dir", help="folder for --output_format npy: a file per sequence")
    parser.add_argument("--output_file", help="for --output_format hdf")
    parser.add_argument("--output_format", default="npy", help="npy or hdf")
    parser.add_argument("--device", help="cpu or gpu. Default: as in the config")
    parser.add_argument("--layers", action="append", help="in the loop; can be repeated. Default: att_weights")
    parser.add_argument("--rec_layer", default="output", help="the loop")
    parser.add_argument("--enc_layer", default="encoder", help="layer whose number of frames is written, too")
    parser.add_argument("--batch_size", type=int, default=5000, help="padded frames in a batch")
    parser.add_argument("--seq_list", action="append", default=[], help="tag that is wanted; can be repeated")
    parser.add_argument("--min_seq_len", default="0", help="leave out shorter sequences: frames, or a dict by data key")
    parser.add_argument("--num_seqs", type=int, default=-1, help="at most so many; below 0 for all")
    parser.add_argument("--train_flag", action="store_true", help="as in training, with dropout and the like")
    parser.add_argument("--dropout", type=float, help="with --train_flag, of all layers that have dropout")
    parser.add_argument("--reset_partition_epoch", type=int, default=1, help="parts that the dataset is cut into")
    parser.add_argument("--reset_seq_ordering", default="sorted_reverse", help="order of the sequences")
    parser.add_argument("--reset_epoch_wise_filter", default=None, help="None: no filter; others are not possible")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    _check(args)
    config = init_config(args, verbosity=1, is_required=True, **_config_options(args))
    dataset = _selected_seqs(config, args)
    names = {f"{args.rec_layer}/{name}": name for name in args.layers or _DEFAULT_LAYERS}
    num_seqs = 0

    def save(tag: str, outputs: SeqOutputs) -> None:
        nonlocal num_seqs
        weights = {name: outputs[layer] for layer, name in names.items()}
        write(tag, weights, frames_of_encoder(outputs[args.enc_layer], args.enc_layer))
        num_seqs += 1

    is_hdf = args.output_format == "hdf"
    with hdf_writer(args.output_file) if is_hdf else npy_writer(args.dump_dir) as write:
        layer_outputs(
            config,
            dataset,
            [*names, args.enc_layer],
            save,
            epoch=args.epoch,
            is_search=args.do_search,
            train_flag=args.train_flag,
            change_net=lambda net_dict: with_options(
                net_dict, dropout=args.dropout, beam_size=args.beam_size if args.do_search else None
            ),
        )
    if not num_seqs:
        raise UserError(f"data {args.data!r}: there are no sequences, or none that are wanted.")
    print(f"wrote {args.output_file if is_hdf else args.dump_dir}: {counted(num_seqs, 'sequence')}")


def _check(args: argparse.Namespace) -> None:
    check_known("format", args.output_format, _FORMATS, where="option '--output_format'")
    if args.reset_epoch_wise_filter not in (None, "None"):
        raise UserError("option '--reset_epoch_wise_filter': only None is possible.")
    wanted, other = ("output_file", "dump_dir") if args.output_format == "hdf" else ("dump_dir", "output_file")
    if getattr(args, wanted) is None or getattr(args, other) is not None:
        raise UserError(f"format {args.output_format!r}: option '--{wanted}' says where to, and '--{other}' nothing.")
    if args.dropout is not None and not args.train_flag:
        raise UserError("option '--dropout': without '--train_flag', there is no dropout.")


def _config_options(args: argparse.Namespace) -> dict[str, object]:
    options: dict[str, object] = {"batch_size": args.batch_size, "forward_batch_size": args.batch_size}
    try:
        min_seq_len = literal_eval(args.min_seq_len)
    except (ValueError, SyntaxError) as exc:
        raise UserError(f"option '--min_seq_len': {args.min_seq_len!r} is no number or dict.") from exc
    if min_seq_len:
        options.update(min_seq_length=min_seq_len, allow_skipping_seqs_in_forward=True)
    if args.device is not None:
        options["device"] = args.device
    return options


def _selected_seqs(config: Config, args: argparse.Namespace) -> Dataset:
    dataset = open_dataset(config, args.data)
    reset_seq_order(dataset, partition_epoch=args.reset_partition_epoch, seq_ordering=args.reset_seq_ordering)
    if args.seq_list:
        dataset.seq_tags_filter = set(args.seq_list)
    return seq_range(dataset, epoch=args.epoch or 1, end=args.num_seqs if args.num_seqs >= 0 else None)
