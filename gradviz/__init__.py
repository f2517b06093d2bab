"""gradviz: see and understand PyTorch's autograd graph."""

__version__ = "0.1.0"
