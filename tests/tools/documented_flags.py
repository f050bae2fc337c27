"""Flags of the tools, as documented: name of the tool -> its flags."""

DOCUMENTED_FLAGS = {
    "analyze-dataset-batches": "--dataset --endseq --epoch --key --use_pretrain --verbosity",
    "bliss-collect-seq-lens": "--output",
    "bliss-dump-text": "",
    "bliss-get-segment-names": (
        "--merge_segs_up_to_time --merge_swb_ab --output_type --sort_by_time --subset_segment_file "
    ),
    "bliss-to-ogg-zip": (
        "--feat_sample_rate --ffmpeg_acodec --ffmpeg_loglevel --ffmpeg_resample --no_cleanup --no_conversion "
        "--no_ogg --number_of_channels --output --raw_sample_rate --sprint_cache --subset_segment_file "
    ),
    "bpe-create-lexicon": "--bpe_vocab --lower_case --output --skip_special --unk --word_vocab",
    "calculate-word-error-rate": (
        "--config --dataset --endseq --expect_full --hyps --key --out --refs --startseq --verbosity "
    ),
    "cleanup-old-models": "--config --cwd --dry_run --model --scores",
    "collect-orth-symbols": (
        "--add_lower_alphabet --add_numbers --add_upper_alphabet --collect_time --dump_orth_syms --filter_orth_sym "
        "--filter_orth_syms_seq --frame_time --max_seq_frame_len --max_seq_orth_len --output --remove_symbols "
    ),
    "collect-words": "--dump_orth --lexicon",
    "compile_native_op": (
        "--blas_lib --config --native_op --no_search_for_numpy_blas --output_file --search_for_numpy_blas --verbosity "
    ),
    "compile_tf_graph": (
        "--device --epoch --eval --output_file --output_file_model_params_list --output_file_state_vars_list "
        "--rec_step_by_step --rec_step_by_step_output_file --search --summaries_tensor_name --train "
        "--update_i_in_graph --verbosity "
    ),
    "debug-dump-search-scores": (
        "--att_weights --cheating --dataset --epoch --output_file --rec_layer_name --seq_list --verbosity "
    ),
    "debug-plot-search-scores": (
        "--add_extra_time_frames --apply_bpe_merge --lexicon --phone_alignment_file_pattern --plot --pos_choice "
        "--pos_time_reduction_factor --rec_layer_name --remove_sentence_end "
    ),
    "dump-dataset-raw-strings": "--config --dataset --endseq --key --out --startseq --verbosity",
    "dump-dataset": (
        "--dataset --dump_postfix --dump_prefix --dump_stats --endseq --epoch --get_num_seqs --key "
        "--max_seq_length --min_seq_length --seqtags --startseq --stats --stdout_as_bytes --stdout_limit --type "
        "--verbosity "
    ),
    "dump-forward-stats": (
        "--dataset --dump_stats --epoch --layer --load --reset_epoch_wise_filter --reset_partition_epoch "
        "--reset_seq_ordering --stats "
    ),
    "dump-forward": "--endseq --epoch --startseq",
    "dump-network-json": "--epoch --out",
    "dump-pickle": "",
    "extract_state_tying_from_dataset": (
        "--action --allo_add_all --context --corpus --dataset --hmm_states --lexicon --print_allos --print_seq "
        "--print_targets --silence --state_tying_output --state_tying_type "
    ),
    "file-cache": (
        "--cache-dir --cleanup-disk-usage-wanted-free-ratio --cleanup-disk-usage-wanted-multiplier "
        "--cleanup-files-always-older-than-days --cleanup-files-wanted-older-than-days "
        "--cleanup-require-free-space --temp-dir "
    ),
    "get-attention-weights": (
        "--batch_size --beam_size --data --device --do_search --dropout --dump_dir --enc_layer --epoch --layers "
        "--min_seq_len --num_seqs --output_file --output_format --rec_layer --reset_epoch_wise_filter "
        "--reset_partition_epoch --reset_seq_ordering --seq_list --train_flag "
    ),
    "get-best-model-epoch": "--config --key --learning-rate-file --n",
    "hdf_dump": "--end_seq --epoch --start_seq",
    "hdf_dump_translation_dataset": (
        "--factor_separator --source_factors --target_factors -c --compression -d --data_buffer_size -l "
        "--line_buffer_size -n --number_of_lines -o --hdf_file -s --source_corpus -t --target_corpus -v "
        "--source_vocabulary -w --target_vocabulary "
    ),
    "import-blocks-mt-model": "",
    "import-t2t-mt-model": "",
    "tf_avg_checkpoints": "--checkpoints --num_last_checkpoints --output_path --prefix",
    "tf_inspect_checkpoint": "--all_tensors --file_name --printoptions --tensor_name",
    "tf_inspect_summary_log": "--tag",
    "torch_avg_checkpoints": "--checkpoints --output_path --postfix --prefix --separator",
    "torch_count_params_via_checkpoint": "--ignore-prefix",
    "torch_export_to_onnx": "--device --input_names --output_names --verbosity",
    "torch_inspect_checkpoint": (
        "--all_tensors --device --interesting_exclude --key --mmap --printoptions --stats --stats_only "
    ),
    "torch_inspect_checkpoint_and_opt": "--all_tensors --cwd --device --key --printoptions --stats_only",
    "torch_scale_tuning": (
        "--batch-size --device --evaluation --fixed-scales --max-scale --max-scales --min-scales --names "
        "--negative-scales --num-iterations --num-steps --output-grid-plot --output-real-scales --output-scales "
        "--ref --scale-relative-to --scores --search-mode "
    ),
}
