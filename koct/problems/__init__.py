"""Tomography: geometry, operators, phantoms, pools. Knows nothing of learning.

A problem is a module that draws the records of a pool and says what its networks know; see `koct.problems.surrogate`.
"""

PROBLEMS = {"surrogate": "koct.problems.surrogate", "fanbeam": "koct.problems.fanbeam"}
