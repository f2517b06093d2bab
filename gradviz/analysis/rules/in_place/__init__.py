"""GV4xx: tensors that were changed in place."""
