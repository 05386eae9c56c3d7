"""How a dense matrix is cut into blocks of rows and shared among ranks, and what memory training it takes.

Pure arithmetic: the workflow asks it before any job starts.
"""

import math

FLOAT = 4  # bytes of a float32
BLOCK = 2**28  # bytes of a block, at most: one is gathered at a time, and a block of this size keeps a GPU busy
LEADING = 64  # eigenvectors that precondition the descent, at most
MICRO_BATCH = 1024  # samples that pass through a block together


def block_rows(rows: int, columns: int) -> int:
    """Rows of a block: the largest divisor of all rows that keeps it below BLOCK and gives at least two blocks.

    It does not depend on the number of ranks, so that any number of them can continue from a checkpoint.
    """
    most = max(1, min(rows // 2, BLOCK // (FLOAT * columns)))
    divisors = (d for small in range(1, math.isqrt(rows) + 1) if rows % small == 0 for d in (small, rows // small))
    return max(d for d in divisors if d <= most)


def leading(N: int, size: int) -> int:
    """How many eigenvectors of the samples' covariance matrix precondition the descent."""
    return min(LEADING, N // 4, size // 2)


def memory(rows: int, columns: int, N: int, ranks: int) -> dict[str, int]:
    """Bytes that training takes on the rank with the largest share, by what they hold."""
    height = block_rows(rows, columns)
    shard = FLOAT * math.ceil(height / ranks) * columns  # of one block; the last rank's is filled up with zeros
    samples = math.ceil(N / ranks)
    return {
        "weights": rows // height * shard,
        "momentum": rows // height * shard,
        "gradient": shard,  # of one block: its step follows at once
        "gathered block": 3 * FLOAT * height * columns,  # the block, its gradient, and a buffer for either
        "preconditioner": 8 * FLOAT * columns * (leading(N, columns) + 8),  # most of it while it is made, in float64
        "samples": FLOAT * samples * (columns + rows) + 2 * FLOAT * min(samples, MICRO_BATCH) * height,
    }


def needed(rows: int, columns: int, N: int, ranks: int) -> int:
    """Bytes per rank in all."""
    return sum(memory(rows, columns, N, ranks).values())


def enough_ranks(rows: int, columns: int, N: int, available: int) -> int | None:
    """The smallest number of ranks with `available` bytes each that can train the matrix; None if no number can."""
    most = block_rows(rows, columns)  # beyond it a rank would hold nothing
    if needed(rows, columns, N, most) > available:
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if needed(rows, columns, N, middle) <= available else (middle, high)
    return high
