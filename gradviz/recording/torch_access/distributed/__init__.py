"""What wrappers of torch.distributed do with parameters and their gradients."""
