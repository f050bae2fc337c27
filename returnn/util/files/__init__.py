"""Small helpers on files: complete or absent, locked, read with clear errors."""
