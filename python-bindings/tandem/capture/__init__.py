"""Capture of a module of `nn` operators from a model, a loss, an optimizer and a batch."""
