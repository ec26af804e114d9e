"""Optimizers as functions: by formulas, or traced from a step of their own."""
