"""Where gradients become zero, NaN, Inf, very small or very large."""
