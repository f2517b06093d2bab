"""`gradviz.watch`: the gradients of a model that trains, now and then."""
