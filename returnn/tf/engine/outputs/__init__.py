"""What comes out of a network for data: frames, hypotheses, statistics, pictures."""
