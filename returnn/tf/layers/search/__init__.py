"""Search: choices, what they choose from and what it is worth, and what is known of the result."""
