"""Peers of Tandem: the same models distributed by PyTorch's own methods, on gloo."""
