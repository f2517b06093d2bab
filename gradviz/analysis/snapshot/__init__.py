"""A short text on what the gradients of a run depend on, kept beside a test and compared with later runs."""
