"""From batches of a data set to what a step of the session is fed."""
