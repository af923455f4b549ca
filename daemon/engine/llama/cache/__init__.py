"""What was computed before and need not be again: slots, saved states, and the tree that finds them."""
