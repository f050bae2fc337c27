"""
The whole recipe of `aligned.config`: `python demos/g2p/run_aligned.py [++option value ...]`.

Trains the members of the ensemble at the same time, each on one core, decodes dev and test by all of them, and scores
them alone and together. Results go to the folder `g2p-aligned` in the working directory. The same command again goes on
where it was stopped.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

from g2p_chunks import AlignedData

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDER = "g2p-aligned"


def main(options: list[str]) -> int:
    """:return: exit status"""
    os.makedirs(FOLDER, exist_ok=True)
    print("=== Alignment", flush=True)
    AlignedData(os.path.join(FOLDER, "alignment.json"))
    for title, commands in steps(options):
        print(f"\n=== {title}", flush=True)
        status = _run(commands)
        if status:
            print(f"{title}: ended early. The same command again goes on from here.", file=sys.stderr)
            return status
    return 0


def steps(options: list[str]) -> list[tuple[str, list[list[str]]]]:
    """
    :param options: of the toolkit
    :return: titles, and commands that run at the same time
    """
    toolkit = [sys.executable, os.path.join(ROOT, "rnn.py"), os.path.join(HERE, "aligned.config"), *options]
    num_members = int(options[options.index("++members") + 1]) if "++members" in options else 2
    combine = [sys.executable, os.path.join(HERE, "combine.py"), FOLDER]
    return [
        ("Training", [[*toolkit, "++member", str(i + 1)] for i in range(num_members)]),
        ("Search", [[*toolkit, "++task", "forward", "++split", split] for split in ("dev", "test")]),
        ("All together", [combine]),
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
