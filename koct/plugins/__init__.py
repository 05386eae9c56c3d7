"""Plugins of Snakemake: executors and a logger, named in the profiles.

Snakemake finds plugins by the names of packages on Python's path, so `make setup` adds this folder to it. They are
imported before the Snakefile is read, and import nothing of koct, which comes from the folder of the Snakefile.

    snakemake ── server                koct.plugins.forked_jobs: has loaded what jobs of a kind import
                   ├── job             a fork for each `python -m koct …`, with its own log and exit status
                   └── job
"""
