"""`tandem.compile` and the step with its values."""
