"""Formulas for PyTorch functions without a usable decomposition: rules of the second trace."""
