"""Statistics, mel scales, and numbers by key."""
