"""What `rnn.py --help NAME` says, and the pages of reference in the documentation. Nothing here imports a framework."""
