"""
The whole recipe of `aligned.config`: `python demos/g2p/run_aligned.py [--judge_epochs N] [++option value ...]`.

Trains the members of the ensemble at the same time, each on one core, decodes dev and test by all of them, and scores
them alone and together. With `--judge_epochs`, two models of `attention-full.config` are trained as well, for so many
epochs, one of them backwards, and judge what was found; options with "++" are those of the members. Results go to the
folders `g2p-aligned` and `g2p-attention-full...` in the working directory. The same command again goes on where it was
stopped.
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
    parser.add_argument("--judge_epochs", type=int, default=0, metavar="N", help="0: no judges; best: 48 to 64")
    own_args, options = parser.parse_known_args(args)
    os.makedirs(FOLDER, exist_ok=True)
    print("=== Alignment", flush=True)
    AlignedData(os.path.join(FOLDER, "alignment.json"))
    for title, commands in steps(options, own_args.judge_epochs):
        print(f"\n=== {title}", flush=True)
        status = _run(commands)
        if status:
            print(f"{title}: ended early. The same command again goes on from here.", file=sys.stderr)
            return status
    return 0


def steps(options: list[str], judge_epochs: int) -> list[tuple[str, list[list[str]]]]:
    """
    :param options: of the toolkit, for the members
    :param judge_epochs: of the training of each judge; 0: there are none
    :return: titles, and commands that run at the same time
    """
    toolkit = [sys.executable, os.path.join(ROOT, "rnn.py")]
    members = [*toolkit, os.path.join(HERE, "aligned.config"), *options]
    judge = [*toolkit, os.path.join(HERE, "attention-full.config"), "++num_epochs", str(judge_epochs)]
    num_members = int(options[options.index("++members") + 1]) if "++members" in options else 2
    lists = [os.path.join(FOLDER, f"{split}.json") for split in ("dev", "test")]
    judging = []
    for backwards in ("False", "True"):
        commands = [[*judge, "++backwards", backwards, "++task", "eval", "++n_best", name] for name in lists]
        judging += [
            ("Training of a judge", [[*judge, "++backwards", backwards, "++task", "train"]]),
            ("Judging", commands),
        ]
    return [
        ("Training", [[*members, "++member", str(i + 1)] for i in range(num_members)]),
        ("Search", [[*members, "++task", "forward", "++split", split] for split in ("dev", "test")]),
        *(judging if judge_epochs else []),
        ("All together", [[sys.executable, os.path.join(HERE, "combine.py"), FOLDER]]),
        ("Scores", [[sys.executable, os.path.join(HERE, "score.py"), os.path.join(FOLDER, "hypotheses.py")]]),
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
