"""In a search, sequences that have ended leave the batch, so that the last frames cost what few sequences cost."""
