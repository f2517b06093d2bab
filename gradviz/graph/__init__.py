"""Pure data about an autograd graph, and pure functions on it. No torch, no files, no colours."""
