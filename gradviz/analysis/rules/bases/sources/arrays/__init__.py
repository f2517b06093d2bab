"""What the source says of arrays, which no call of torch computes."""
