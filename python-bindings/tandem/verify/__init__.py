"""Comparison of training runs with eager PyTorch."""
