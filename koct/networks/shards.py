"""How a dense H²×V·B matrix is cut into blocks of rows and shared among ranks, and what memory training it takes.

Pure arithmetic: the workflow asks it before any job starts.
"""

import math

FLOAT = 4  # bytes of a float32
BLOCK = 2**28  # bytes of a block, at most: one is gathered at a time, and a block of this size keeps a GPU busy
LEADING = 64  # eigenvectors that precondition the descent, at most
MICRO_BATCH = 1024  # samples that pass through a block together


def block_rows(H, V, B):
    """Rows of a block: the largest divisor of H² that keeps it below BLOCK and gives at least two blocks.

    It does not depend on the number of ranks, so that any number of them can go on from a checkpoint.
    """
    most = max(1, min(H * H // 2, BLOCK // (FLOAT * V * B)))
    divisors = (d for small in range(1, H + 1) if H * H % small == 0 for d in (small, H * H // small))
    return max(d for d in divisors if d <= most)


def leading(N, size):
    """How many eigenvectors of the samples' covariance matrix precondition the descent."""
    return min(LEADING, N // 4, size // 2)


def share(N, rank, ranks):
    """(first, count) of the samples of one rank."""
    first, end = N * rank // ranks, N * (rank + 1) // ranks
    return first, end - first


def memory(H, V, B, N, ranks):
    """Bytes that training takes on the rank with the largest share, by what they hold."""
    rows, size = block_rows(H, V, B), V * B
    shard = FLOAT * math.ceil(rows / ranks) * size  # of one block; the last rank's is filled up with zeros
    samples = math.ceil(N / ranks)
    block = FLOAT * rows * size
    return {
        "weights": H * H // rows * shard,
        "momentum": H * H // rows * shard,
        "gradient": shard,  # of one block: its step follows at once
        "gathered block": 3 * block,  # the block, its gradient, and the buffer that gathers one or sums up the other
        "preconditioner": 8 * FLOAT * size * (leading(N, size) + 8),  # most of it while it is made, in float64
        "samples": FLOAT * samples * (size + H * H) + 2 * FLOAT * min(samples, MICRO_BATCH) * rows,
    }


def needed(H, V, B, N, ranks):
    """Bytes per rank in all."""
    return sum(memory(H, V, B, N, ranks).values())


def enough_ranks(H, V, B, N, available):
    """The smallest number of ranks with `available` bytes each that can train the matrix; None if no number can."""
    most = block_rows(H, V, B)  # beyond it a rank would hold nothing
    if needed(H, V, B, N, most) > available:
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if needed(H, V, B, N, middle) <= available else (middle, high)
    return high
