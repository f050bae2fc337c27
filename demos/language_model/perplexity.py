"""
Perplexity of words, from the score of a subword: `python demos/language_model/perplexity.py test 3.7`.

`LM_DATA` as for the config; a third argument is the number of subwords, if it is not that of the config.
"""

import math
import sys

from lm_data import NUM_SUBWORDS, subwords_per_word


def main(split, score, num_subwords=NUM_SUBWORDS):
    ratio = subwords_per_word(split, int(num_subwords))
    perplexity = math.exp(float(score) * ratio)
    print(f"{split}: perplexity {perplexity:.1f} of words, with {ratio:.3f} subwords per word")


if __name__ == "__main__":
    main(*sys.argv[1:])
