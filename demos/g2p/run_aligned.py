"""
The whole recipe of `aligned.config`: `python demos/g2p/run_aligned.py [--judges N] [--with_dev] [++option value ...]`.

Trains the members of the ensemble at the same time, each on one core, decodes dev and test by all of them, and scores
them alone and together. With `--judges`, so many models of `attention-full.config` are trained as well, every other one
of them backwards, and judge what was found; options with "++" are those of the members. With `--with_dev`, all models
are trained for a last pass over the training data and dev, when all is chosen. Results go to the folders
`g2p-aligned` and `g2p-attention-full...` in the working directory. The same command again goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys

from g2p_chunks import AlignedData

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDER = "g2p-aligned"


def main(args: list[str]) -> int:
    """:return: exit status"""
    parser = argparse.ArgumentParser(description="Letters to phonemes by an ensemble: see the top of this file.")
    parser.add_argument("--judges", type=int, default=0, metavar="N", help="how many; best: 4")
    parser.add_argument("--judge_epochs", type=int, default=48, metavar="N", help="of the training of each judge")
    parser.add_argument("--with_dev", action="store_true", help="a last pass over all data but test")
    own_args, options = parser.parse_known_args(args)
    os.makedirs(FOLDER, exist_ok=True)
    print("=== Alignment", flush=True)
    AlignedData(os.path.join(FOLDER, "alignment.json"))
    for title, commands in steps(options, own_args.judges, own_args.judge_epochs, with_dev=own_args.with_dev):
        print(f"\n=== {title}", flush=True)
        status = _run(commands)
        if status:
            print(f"{title}: ended early. The same command again goes on from here.", file=sys.stderr)
            return status
    return 0


Step = tuple[str, list[list[str]]]  # title, and commands that run at the same time


def steps(options: list[str], num_judges: int, judge_epochs: int, *, with_dev: bool = False) -> list[Step]:
    """
    :param options: of the toolkit, for the members
    :param num_judges: that are trained, two at a time
    :param judge_epochs: of the training of each judge
    :param with_dev: all models get a last pass over the training data and dev
    :return: what there is to do
    """
    toolkit = [sys.executable, os.path.join(ROOT, "rnn.py")]
    members = [*toolkit, os.path.join(HERE, "aligned.config"), *options]
    judge = [*toolkit, os.path.join(HERE, "attention-full.config"), "++num_epochs", str(judge_epochs)]
    judges = [[*judge, "++judge", str(i + 1)] for i in range(num_judges)]
    num_members = int(options[options.index("++members") + 1]) if "++members" in options else 2
    result = _steps_of_models(members, num_members, judges, ["dev", "test"])
    if with_dev:
        last = ["++with_dev", "True"]
        of_judges = [[*command, *last] for command in judges]
        result += _steps_of_models([*members, *last], num_members, of_judges, ["test"], suffix="-with-dev")
    return [
        *result,
        ("All together", [[sys.executable, os.path.join(HERE, "combine.py"), FOLDER]]),
        ("Scores", [[sys.executable, os.path.join(HERE, "score.py"), os.path.join(FOLDER, "hypotheses.py")]]),
    ]


def _steps_of_models(
    members: list[str], num_members: int, judges: list[list[str]], splits: list[str], *, suffix: str = ""
) -> list[Step]:
    lists = [os.path.join(FOLDER, f"{split}{suffix}.json") for split in splits]
    judging: list[Step] = []
    for i in range(0, len(judges), 2):  # two at a time, as many as the least number of cores
        judging += [
            (f"Training of judges{suffix}", [[*command, "++task", "train"] for command in judges[i : i + 2]]),
            *(
                (f"Judging{suffix}", [[*command, "++task", "eval", "++n_best", name] for name in lists])
                for command in judges[i : i + 2]
            ),
        ]
    return [
        (f"Training{suffix}", [[*members, "++member", str(i + 1)] for i in range(num_members)]),
        (f"Search{suffix}", [[*members, "++task", "forward", "++split", split] for split in splits]),
        *judging,
    ]


def _run(commands: list[list[str]]) -> int:
    """
    :param commands: run at the same time, each with one thread
    :return: exit status of the first one that failed, or 0; Ctrl-C goes to the commands, which save first
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen(command, env=environment) for command in commands]
    statuses = [_wait(process) for process in processes]
    return next((status for status in statuses if status), 0)


def _wait(process: subprocess.Popen[bytes]) -> int:
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
