"""`returnn view`: a page over any number of runs, of what they have left in their folders. See docs/viewer.md."""
