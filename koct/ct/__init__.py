"""Tomography: geometry, operators, phantoms, pools. Knows nothing of learning.

A problem is a module that draws (input, target) pairs and names its known operator; see `koct.ct.surrogate`.
"""

PROBLEMS = {"surrogate": "koct.ct.surrogate"}
