"""Guards of a captured step: identity of tensors, settings of Python code, watches of values."""
