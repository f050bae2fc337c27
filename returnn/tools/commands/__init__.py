"""The tools of the command line, a module each: `make_parser`, and `main`, which does the work."""
