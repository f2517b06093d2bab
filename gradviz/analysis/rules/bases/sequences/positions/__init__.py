"""What each position of a sequence reads: convolutions, masks, matrices and means over positions."""
