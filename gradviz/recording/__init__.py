"""Running the user's program and watching autograd. The only folder that imports torch."""
