"""What the recorder does about code that `torch.compile` made."""
