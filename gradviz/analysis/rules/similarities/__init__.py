"""Rules about losses that bring results together and keep others apart: cosines, positives, negatives, margins."""
