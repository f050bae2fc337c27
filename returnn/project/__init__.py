"""`returnn new NAME`: a folder to begin with, whose config trains at once."""
