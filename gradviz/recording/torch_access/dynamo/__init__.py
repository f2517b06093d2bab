"""The private names of torch that tell what Dynamo traced."""
