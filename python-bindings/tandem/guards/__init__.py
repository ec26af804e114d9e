"""Whether the Python that a step was captured of is still the same: identity, settings, watches."""
