"""Processes that have loaded what jobs need, so that a job costs what it computes.

    snakemake ── bash ── python -m koct fit ...        the client: as long as the job, with its log and its exit status
        │                        │ socket
        └── server ── zygote ── worker                 runs the command; dies with its client, or with the zygote

The server keeps a zygote for each kind of job. A zygote has imported what jobs of its kind import, and forks a worker
for each of them. Those of the kind `gpu` are kept for further jobs, since each has to open CUDA itself. Whenever
something is not as expected, a client runs its command by itself.
"""
