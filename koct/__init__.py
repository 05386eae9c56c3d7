"""koct: how many training samples a network needs, and how many a known operator saves."""

__version__ = "0.1.0"
