"""`python -m koct`, as the workflow calls it: hundreds of short processes, so start and end quickly."""

import gc
import os
import resource
import sys

gc.set_threshold(100_000)  # imports make many objects and no garbage

from koct.cli import main  # noqa: E402

status = main()
if os.environ.get("RANK", "0") == "0":  # one of torchrun's processes speaks for all
    print(f"koct: peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB", file=sys.stderr)
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)  # every file is closed: nothing is left that the interpreter would have to tear down
