"""What the scripts in the folder `tools` do, and what they have in common."""
