"""`python -m returnn.datasets.sprint NN_TRAINER --config=CONFIG ...` prints the first sequences that RASR gives."""

from returnn.datasets.sprint import demo

if __name__ == "__main__":
    demo()
