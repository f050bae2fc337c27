"""Mistakes on the command line, as people see them."""

import pytest

import returnn.launch
from returnn.project import new
from returnn.util.system.command_parser import CommandParser
from returnn.view import command


@pytest.fixture
def parser():
    made = CommandParser(prog="tool")
    made.add_argument("file")
    made.add_argument("--num_seqs", type=int)
    made.add_argument("--end-seq", dest="end")
    made.add_argument("-k", "--kind", choices=["a", "b"])
    return made


def test_what_is_right(parser):
    assert vars(parser.parse_args(["--num_seqs", "2", "x"])) == {"file": "x", "num_seqs": 2, "end": None, "kind": None}


def test_options_are_between_arguments_of_which_one_may_be_left_out():
    parser = CommandParser(prog="tool")
    parser.add_argument("config", nargs="?")
    parser.add_argument("output")
    parser.add_argument("--epoch", type=int)
    wanted = {"config": "a.config", "output": "b", "epoch": 3}
    for args in ("a.config --epoch 3 b", "--epoch 3 a.config b", "a.config b --epoch 3"):
        assert vars(parser.parse_args(args.split())) == wanted
    assert vars(parser.parse_args(["--epoch", "3", "b"])) == {**wanted, "config": None}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["x", "--num_sesq", "3"], "unrecognized arguments: --num_sesq 3.\n  Did you mean '--num_seqs'? 'tool --help'"),
        (["x", "--num-seqs=3"], "unrecognized arguments: --num-seqs=3.\n  Did you mean '--num_seqs'? "),
        (["x", "--End_Seq", "3"], "unrecognized arguments: --End_Seq 3.\n  Did you mean '--end-seq'? "),
        (["x", "--num", "3"], "unrecognized arguments: --num 3.\n  "),
        (["x", "y"], "unrecognized arguments: y.\n  'tool --help' lists what is possible."),
        (["x", "--num_seqs", "many"], "argument --num_seqs: invalid int value: 'many'.\n  'tool --help'"),
        ([], "the following arguments are required: file.\n  'tool --help'"),
        (["x", "-k", "c"], "argument -k/--kind: invalid choice: 'c'"),
    ],
)
def test_a_mistake_is_said_in_two_lines(args, said, parser, capsys):
    with pytest.raises(SystemExit) as end:
        parser.parse_args(args)
    out, err = capsys.readouterr()
    assert (out, end.value.code) == ("", 2)
    assert err.startswith(f"error: {said}")
    assert err.count("\n") == 2


@pytest.mark.parametrize("make_parser", [new.make_parser, command.make_parser, returnn.launch._parser])
def test_all_commands_say_it_so(make_parser):
    assert isinstance(make_parser(), CommandParser)
