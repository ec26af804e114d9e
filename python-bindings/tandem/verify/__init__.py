"""Runs that are compared with eager PyTorch."""
