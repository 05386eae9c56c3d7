"""`python -m koct`, as the workflow calls it: hundreds of short processes, so start and end quickly."""

import gc
import os

gc.set_threshold(100_000)  # imports make many objects and no garbage

try:
    from koct.cli import main

    status = main()
except KeyboardInterrupt:  # at the imports: `main` hears of any other
    from koct.base.failures import ended

    status = ended(KeyboardInterrupt())
if os.environ.get("RANK", "0") == "0":  # one of torchrun's processes speaks for all
    from koct.base.failures import say_peak_memory

    say_peak_memory()
os._exit(status)  # every file is closed: nothing is left that the interpreter would have to tear down
