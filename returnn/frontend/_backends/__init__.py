"""What each backend knows: its raw operations, and the operations which it does better than others."""
