"""A search in a loop that goes on from one around it: hypotheses before the first frame, frames behind the last one."""
