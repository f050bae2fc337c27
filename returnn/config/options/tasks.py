"""Options of evaluation, search, forward and statistics."""

from __future__ import annotations

from typing import Any

from returnn.config import option_kinds as kinds
from returnn.config.option import Option, OptionTable, boolean, choice, filename, text, texts


class EvaluationOptions(OptionTable):
    """The task 'eval'."""

    eval_output_file = filename(None, "Where the task 'eval' writes all scores.")
    eval_output_file_per_seq = filename(
        None,
        "Where the task 'eval' writes the scores of each sequence. Of several data sets, each has a file of its own,"
        " FILE.NAME, such as FILE.dev. They are in the order of the corpus, or in that of the batches if the data set"
        " does not know it, which the log says, as it does of those that are left out; 'seq_tag' in"
        " 'output_per_seq_format' names them.",
    )
    loss_name = text(
        None,
        "The loss that the scores per sequence are of; by default the only one that has the columns.",
    )
    output_per_seq_format = texts(
        ("score",),
        "What is written for each sequence: 'seq_tag', 'seq_len', 'score', 'error', 'perplexity', and for each of its "
        "frames 'pos_score', 'pos_error'. Score and error are means over frames, or over labels (CTC); 'seq_len' is the"
        " number of these, so that, times 'seq_len', they are sums, as for rescoring.",
    )
    output_per_seq_file_format = choice("txt", "The format of the file with scores per sequence.", ("txt", "py"))


class SearchOptions(OptionTable):
    """The task 'search'."""

    search_output_layer: Option[Any] = Option(
        kinds.TEXTS, ("output",), "The layer with the hypotheses, or a list of layers."
    )
    search_output_file = filename(None, "Where hypotheses are written.")
    search_output_file_format = text(
        "txt",
        "The format of that file. With a line for each sequence: 'txt', the best hypothesis; 'words', the same with "
        "subwords put together; 'tagged', that after the tag; 'json', tag and hypotheses. 'py' is a dict from tags to "
        "hypotheses, 'py-words' the same with subwords put together. Lists of hypotheses have scores, the best one "
        "first: means of log probabilities over the labels, with that of the end; sums, where 'length_normalization' "
        "of the choice is off.",
    )
    search_metrics = texts((), "What is computed at the end of a search, by the target: 'wer', 'cer', 'bleu'.")
    search_depends_on_batch = boolean(
        True,
        "Limits and lengths in a search are those of the longest sequence of the batch, as in the original toolkit. "
        "The engine sets it to False, if the config does not say anything: each sequence has its own ones.",
    )
    search_shrinks_batch = boolean(
        True,
        "In a search, sequences that have ended leave the batch, so that the last frames take less time. What is found "
        "is the same. Where something in the loop may depend on the whole batch, they stay.",
    )
    search_do_eval = boolean(True, "Losses of the search are shown, such as the edit distance.")
    search_train_network_layers = texts(
        None, "The training computes these layers a second time, in search, for losses on hypotheses."
    )


class ForwardOptions(OptionTable):
    """The tasks 'forward' and 'compute_priors'."""

    forward_output_layer = text(
        "output", "The layer whose output is written. What has no frames, [B, F] or [B], is one frame per sequence."
    )
    forward_callback: Option[Any] = Option(
        kinds.ANYTHING,
        None,
        "A `ForwardCallbackIface`, or a function that makes one; it gets the outputs. With `get_model`, it gets those"
        " of the task 'search', too; hypotheses are scored and written beside it where 'search_metrics' or "
        "'search_output_file' is set.",
    )
    forward_use_search = boolean(False, "The network is made as in search.")
    forward_override_hdf_output = boolean(False, "A file that exists already is replaced.")
    output_file = filename(
        None,
        "Where outputs are written, as HDF; and averages, as text: for priors the log of each, one per line. "
        "In HDF, sequences are in the order of the batches, sorted by length unless the data set has a "
        "`seq_ordering`: `seqTags` says which one is where.",
    )


class StatisticsOptions(OptionTable):
    """The tasks 'analyze' and 'analyze_data'."""

    analyze_dataset = text("train", "The name of the option with the data set.")
    data_key = text("data", "The data key that 'analyze_data' looks at.")
    statistics = texts(None, "Which statistics 'analyze' collects; by default all.")
    statistics_dtype = text("float64", "The dtype in which 'analyze_data' sums up.")
    statistics_save_prefix = filename("statistics", "The beginning of the names of the files of 'analyze_data'.")
