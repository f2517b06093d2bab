"""Every private or version-dependent name of torch, in one folder."""
