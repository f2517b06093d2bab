"""What is drawn or computed once, before the training or in its first epoch, and used later; and what draws change."""
