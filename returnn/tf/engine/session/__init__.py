"""A network in a session with its parameters, and how both change from epoch to epoch."""
