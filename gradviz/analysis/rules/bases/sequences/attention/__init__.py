"""What rules share about attention: products of queries and keys, masks, and what a softmax makes of the scores."""
