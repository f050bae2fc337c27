"""What goes over the data: training, evaluation, and what they share, for all backends."""
