"""The gradients on every edge of one backward call, as figures."""
