"""What rules need to know of losses: their terms and signs, what they compare, and what they train."""
