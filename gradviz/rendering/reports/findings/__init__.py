"""Findings of ``gradviz check``, in one file for each output format."""
