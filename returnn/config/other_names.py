"""Names that other toolkits have for options of a config: nothing is known of them but what a message then says."""

from __future__ import annotations

_NAMES = {
    "batch_size": ("bs", "batch", "train_batch_size", "mini_batch_size", "minibatch_size"),
    "dev": ("valid", "valid_data", "validation", "validation_data", "val_data", "dev_data", "cv", "cv_data"),
    "device": ("gpu", "gpus", "use_gpu", "cuda", "use_cuda"),
    "eval": ("test", "test_data", "eval_data"),
    "gradient_clip_global_norm": ("clip_grad_norm", "max_grad_norm", "clip_norm", "grad_clip_norm"),
    "learning_rate": ("lr", "learn_rate", "base_lr", "initial_lr", "max_lr"),
    "load_epoch": ("checkpoint", "ckpt", "resume", "resume_from"),
    "log_verbosity": ("verbose", "verbosity", "log_level", "loglevel"),
    "model": ("output_dir", "save_dir", "out_dir", "model_dir", "exp_dir", "save_path"),
    "num_epochs": ("epochs", "max_epochs", "max_epoch", "n_epochs", "nepochs", "num_train_epochs", "train_epochs"),
    "optimizer": ("optim", "opt"),
    "random_seed": ("seed",),
    "search_data": ("decode_data", "decoding_data"),
    "train": ("train_data", "training_data", "train_set"),
    "web_server_port": ("port",),
}
OTHER_NAMES = {name: option for option, names in _NAMES.items() for name in names}  # to that of a config
