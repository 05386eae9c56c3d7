"""The verbs of the command line and their arguments."""

from koct.commands import people, stages

# verb: (function, what it does, its arguments)
VERBS = {**stages.VERBS, **people.VERBS}
