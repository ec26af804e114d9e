"""What the tracer meets in a step: masks, indices, reads, writes, and where operators come from."""
