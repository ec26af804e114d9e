"""A compiled step with its values: `tandem.compile`, and what it returns."""
