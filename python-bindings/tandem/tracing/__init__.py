"""Handlers of the tracer: masks, indices, reads, writes, origins of operators."""
