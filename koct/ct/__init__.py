"""Tomography: geometry, operators, phantoms, pools. Knows nothing of learning.

A problem is a module that draws the records of a pool and says what its networks know; see `koct.ct.surrogate`.
"""

PROBLEMS = {"surrogate": "koct.ct.surrogate", "fanbeam": "koct.ct.fanbeam_problem"}
