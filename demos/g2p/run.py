"""
The whole demo: `python demos/g2p/run.py [CONFIG] [++option value ...]`.

Trains, decodes the words of the test data, prints error rates and examples, and draws the attention of some words.
Results go to a folder in the working directory. The same command again goes on where it was stopped.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def main(args: list[str]) -> int:
    """:return: exit status"""
    folder, commands = steps(args)
    for title, command in commands.items():
        print(f"\n=== {title}", flush=True)
        status = _run(command)
        if status:
            print(f"{title}: ended early. The same command again goes on from here.", file=sys.stderr)
            return status
    print(f"\nIn {os.path.abspath(folder)}:")
    for name, what in [
        ("network.*", "models"),
        ("learning_rates, learning_curve.png", "scores of all epochs, as text and as picture"),
        ("tensorboard", f"the same for each step: tensorboard --logdir {folder}/tensorboard"),
        ("hypotheses.py", "what was decoded"),
        ("attention", "pictures of the attention, one for each word"),
    ]:
        print(f"  {name:36} {what}")
    return 0


def steps(args: list[str]) -> tuple[str, dict[str, list[str]]]:
    """
    :param args: config and options
    :return: where the results are; commands by their titles
    """
    has_config = bool(args) and not args[0].startswith(("-", "+"))
    config = args[0] if has_config else os.path.join(HERE, "attention.config")
    options = args[1:] if has_config else args
    folder = f"g2p-{os.path.splitext(os.path.basename(config))[0]}"
    toolkit = [sys.executable, os.path.join(ROOT, "rnn.py"), config]
    return folder, {
        "Training": [*toolkit, *options, "++task", "train"],
        "Search": [*toolkit, *options, "++task", "search"],
        "Pictures of the attention": [*toolkit, *options, "++task", "plot_attention"],
        "Scores": [sys.executable, os.path.join(HERE, "score.py"), f"{folder}/hypotheses.py"],
    }


def _run(command: list[str]) -> int:
    """:return: exit status; Ctrl-C goes to the command, which saves first"""
    process = subprocess.Popen(command)
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
