"""Runs the user's program and watches autograd. The only folder that imports torch."""
