"""What NumPy arrays and torch tensors have in common, without importing torch."""


def is_torch(x):
    """Whether x is a torch tensor."""
    return type(x).__module__.partition(".")[0] == "torch"
