"""Options of data and batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from returnn.config import option_kinds as kinds
from returnn.config.option import (
    Option,
    OptionTable,
    boolean,
    choice,
    data,
    filename,
    integer,
    number,
    number_by_key,
    same_as,
    text,
    texts,
)
from returnn.util.numbers.numbers_dict import NumbersDict


class DataOptions(OptionTable):
    """Data sets."""

    train = data("The data set to train on.")
    dev = data("The data set that decides about the learning rate, after each epoch.")
    eval = data("A further data set for evaluation after each epoch.")
    eval_datasets: Option[Mapping[str, Any] | None] = Option(
        kinds.DICT, None, "Further data sets for evaluation, by name, such as {'a': \"config:data_of('a')\"}."
    )
    search_data = data("What the task 'search' decodes: a data set, or the name of an option; by default `eval`.")
    forward_data = data(
        "What the task 'forward' works on: a data set, or the name of an option; by default `eval`. Its "
        "sequences are sorted by length, unless its `seq_ordering` says otherwise."
    )
    extern_data: Option[Any] = Option(
        kinds.DICT,
        None,
        "What the network sees: for each data key, a dict with dim, vocabulary, dtype and so on, such as "
        "`{'data': {'dim': 40}, 'classes': {'dim': 10, 'sparse': True}}`.",
        keys_of="returnn.datasets.util.data_description:DataOptions",
    )
    default_input = text("data", "The data key that layers without `from` get.")
    target = text("classes", "The data key of targets, for layers that do not say another one.")
    num_inputs = integer(0, "The older form of `extern_data`: dim of the input.", minimum=0)
    num_outputs: Option[Any] = Option(
        kinds.any_of_kind(kinds.DICT, kinds.integer_kind(0)),
        None,
        "The older form of `extern_data`: number of classes, or data key -> dim, or [dim, number of axes].",
    )
    sparse_input = boolean(False, "With `num_inputs`: the input consists of indices.")
    data_wait_limit_s = number(
        3600.0, "Waiting so many seconds for one batch, or for files and data sets to open, is an error.", minimum=0.0
    )
    cache_size = texts((), "How much data stays in memory, such as '512M'; up to three of them: train, dev, eval.")
    use_dummy_datasets = boolean(False, "All data is random data with the keys and dims of `extern_data`.")
    dummy_dataset_num_seqs = integer(100, "With `use_dummy_datasets`: number of sequences.", minimum=0)
    train_dummy_dataset_num_seqs = same_as(
        dummy_dataset_num_seqs, "With `use_dummy_datasets`: number of sequences for training."
    )
    lm_dataset_debug_limit_line_count = integer(
        None, "`LmDataset` reads only so many lines of each file, for a quick test.", minimum=1
    )
    sprint_trainer_exec_path = filename(None, "RASR's trainer, for data sets and losses that do not say another one.")
    sprint_interface_dataset_opts: Option[Any] = Option(
        kinds.DICT, {}, "Options of the training data, where RASR is the main program and feeds it."
    )


class BatchOptions(OptionTable):
    """Sequences and batches."""

    batching = text(None, "Order of the training sequences, such as 'random', 'laplace:.1000' or 'sorted'.")
    batch_size: Option[Any] = Option(
        kinds.BATCH_SIZE,
        None,
        "At most so many frames in a batch, padding included; 10000 if nothing is said. 'auto': as many as fit into"
        " memory, found when the training begins, and kept in MODEL.batch_size.",
    )
    auto_batch_size: Option[Mapping[str, Any] | None] = Option(
        kinds.DICT,
        None,
        "For `batch_size = 'auto'`: `start`, the frames that are tried first (1000); `margin`, the part that is left"
        " free (0.1); `memory_gb`, what a process on CPUs may take; by default 0.9 of what is free.",
    )
    eval_batch_size = number_by_key("The same as `batch_size`, for evaluation.")
    forward_batch_size = integer(0, "The same as `batch_size`, for the tasks 'forward' and 'search'.", minimum=0)
    max_seqs = number_by_key("At most so many sequences in a batch.")
    max_pad_size = number_by_key("At most so many padded frames in a batch.")
    max_total_num_seqs = number_by_key("At most so many sequences in an epoch.")
    max_seq_length = number_by_key("Longer sequences are left out of training and `dev`; the log says how many.")
    min_seq_length = number_by_key("Shorter sequences are left out of training and `dev`; the log says how many.")
    inc_seq_length = number(0.0, "By how much `max_seq_length` grows with each epoch.")
    seq_drop: Option[Any] = Option(
        kinds.number_kind(0), None, "The probability with which a training sequence is left out."
    )
    allow_skipping_seqs_in_forward = boolean(
        False, "`max_seq_length` and `min_seq_length` leave out sequences in 'forward' and similar tasks, too."
    )
    shuffle_batches = boolean(False, "The batches of a training epoch come in random order.")
    enforce_min_len1 = boolean(
        False,
        "Padded arrays have at least one frame, also if no sequence of the batch has one, as may be with targets.",
    )
    chunking: Option[Any] = Option(
        kinds.instance_kind(
            "a size, 'size:step', a pair of them, sizes by data key, or a function",
            str,
            int,
            tuple,
            list,
            Mapping,
            NumbersDict,
            is_function=True,
        ),
        None,
        "Training sequences are cut into chunks of that size and step.",
    )
    chunk_eval = boolean(False, "Data for evaluation is cut into chunks, too.")
    chunking_variance = number(0.0, "By how much the size of chunks varies, relatively.", minimum=0)
    min_chunk_size: Option[Any] = Option(
        kinds.NUMBER_BY_KEY,
        0,
        "A rest of a sequence of up to that many frames is no chunk of its own, and is left out.",
    )
    on_size_limit = choice("ignore", "'chunk': data for evaluation is cut by `batch_size`.", ("ignore", "chunk"))
    context_window: Option[Any] = Option(
        kinds.NUMBER_BY_KEY, None, "How many frames of context a chunk has in all, in addition to its own."
    )
    window = integer(0, "Width of the window of frames that data sets put into each frame.", minimum=0)
    shuffle_frames_of_nseqs = integer(0, "Frames of so many sequences are shuffled.", minimum=0)
    dataset_pipeline: Option[Any] = Option(
        kinds.any_of_kind(kinds.BOOLEAN, kinds.FUNCTION),
        None,
        "True: batches come by `tf.data`; a function makes its own pipeline of it.",
    )
    tf_data_provider_capacity = integer(10, "How many batches are prepared ahead.", minimum=1)
    packed_tensors: Option[Any] = Option(
        kinds.any_of_kind(kinds.BOOLEAN, kinds.DICT), False, "Data keys that are packed, without padding."
    )
