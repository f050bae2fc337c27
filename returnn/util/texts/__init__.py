"""Numbers and values as text, and text as symbols."""
