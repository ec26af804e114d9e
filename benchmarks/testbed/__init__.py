"""A test bed: several hosts on one machine, with links of a given rate."""

from .namespaces import TestbedError
from .network import Network, format_rate, parse_rate

__all__ = ["Network", "TestbedError", "format_rate", "parse_rate"]
