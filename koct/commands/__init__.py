"""The verbs of the command line and their arguments."""

from koct.commands.stages import VERBS as VERBS
