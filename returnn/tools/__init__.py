"""What the scripts in the folder `tools` do: one module each in `commands`, and what these have in common."""
