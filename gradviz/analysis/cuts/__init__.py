"""Where the path of a gradient was cut, and which tensors get nothing because of it."""
