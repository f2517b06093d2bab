"""What becomes of parameters that no loss uses, and of what was computed from them."""
