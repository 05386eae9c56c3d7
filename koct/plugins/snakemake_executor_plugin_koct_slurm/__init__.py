"""Snakemake's `--executor koct-slurm`, which profiles/slurm names. `make slurm` installs what it needs."""

try:
    from snakemake_executor_plugin_slurm import ExecutorSettings as ExecutorSettings
    from snakemake_executor_plugin_slurm import common_settings
except ModuleNotFoundError:  # Snakemake imports every plugin at every start; this one, an abstract class, refuses to
    from snakemake.executors.local import common_settings
    from snakemake_interface_executor_plugins.executors.base import AbstractExecutor as Executor
else:
    from snakemake_executor_plugin_koct_slurm.executor import Executor

__all__ = ["Executor", "common_settings"]
