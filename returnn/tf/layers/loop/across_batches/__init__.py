"""What a loop takes from one batch to the next, for sequences which go on there."""
