"""Optimizers as functions, by formulas or traced from their own step."""
