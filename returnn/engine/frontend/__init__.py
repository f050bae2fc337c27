"""Models that a config writes in Python (`get_model`, `train_step`): what the engines of all backends share."""
