"""What the old module better_exchook has beside the hook itself: source code, frames and colors as text."""
