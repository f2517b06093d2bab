"""`gradviz.watch`: measures the gradients of a model at some steps of its training."""
