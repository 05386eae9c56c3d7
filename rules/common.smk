# What every stage needs: the package, and the jobs of the study.
# Snakemake copies every name that is global here several times for each job of a dry run: there are few.

import gc
import glob
import inspect

gc.set_threshold(1_000_000)  # a DAG is many objects and no garbage: looking for it takes an eighth of a large dry run

# Jobs run the package beside the Snakefile with the Python that runs Snakemake, and import nothing from the working
# folder by accident.
os.environ.update(
    PYTHONPATH=os.pathsep.join(filter(None, [workflow.basedir, os.environ.get("PYTHONPATH")])),
    PYTHONSAFEPATH="1",
    PATH=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]),
    KOCT_TORCHRUN=os.path.join(workflow.basedir, "rules", "torchrun.sh"),
)

from koct.workflow import cluster, helpers, limits, queue, resources, site, stale, submissions, targets, terminal
from koct.study import paths
from koct.config.study_file import read_words
from koct.report import registry
from koct.workflow.jobs import Jobs

site.complete(config, workflow.config_settings.overwrite_config)
read_words(config)
if site.read():
    cluster.adapt(site.read(), logger)
    cluster.keep_finished(workflow, logger)

terminal.calm(workflow)
try:
    queue.check_folders()
    stale.watch(workflow, logger)
    jobs = Jobs(config)
    if workflow.is_main_process:
        limits.check(jobs.study, config, local=workflow.resource_settings.nodes is None)
        targets.check(sys.argv, jobs.sweeps, config)
except KoctError as error:
    raise WorkflowError(str(error))
os.environ.update(jobs.environment())
if jobs.workers:
    helpers.use(workflow, jobs.gpu_problems)


def asked_often(function):
    """Snakemake looks up the signature of a cell's functions a dozen times: it need not find it out each time."""

    def of(wildcards):
        return function(wildcards)

    of.__signature__ = inspect.signature(of)
    of._overwrite_params = of.__signature__.parameters  # where Snakemake 9 looks first: 5 % of a large dry run
    return of


def of_large(group):
    """A group of large jobs: all go by the name of `large` in a profile's group-components."""

    def of(wildcards):
        name = group(wildcards)
        workflow.parent_groupids[name] = "large"
        return name

    return of


def shared_option(wildcards, input):
    """The option of a verb that may read what a problem computes once per sweep."""
    return f"--shared {input.shared}" if input.shared else ""


def compile_package():
    """Where Python may not cache bytecode, every job would compile the package again: 30 ms of its 150."""
    if sys.dont_write_bytecode:
        import compileall

        compileall.compile_dir(os.path.join(workflow.basedir, "koct"), quiet=2)


def announce():
    """Say what is about to run and what it asks a cluster for; a KoctError if that would be in vain."""
    sweeps = "1 sweep" if len(jobs.study) == 1 else f"{len(jobs.study)} sweeps"
    logger.info(f"Study {config['study']}: {sweeps}, {len(jobs.cells)} cells, device {jobs.device}.")
    for sweep in jobs.study:
        if sweep.theory and sweep.no_theory_pool:
            logger.info(f"No curve of {sweep.name} is predicted, for want of a pool: {sweep.no_theory_pool}.")
    if site.read():
        planned = submissions.planned(workflow.dag)
        logger.info(submissions.in_words(planned, site.read().memory))
        submissions.check(planned, workflow.executor_settings, site.read())


def greet():
    """Say what is about to run, and see to it that nothing else runs here."""
    try:
        announce()
        workflow.koct_lock = queue.take_lock()
    except KoctError as error:
        raise WorkflowError(str(error))
    if workflow.koct_lock is None:
        logger.info("This file system has no locks: start one run at a time here.")
    elif not workflow.local_exec:
        left = queue.cancel_leftovers()
        if left:
            count = "1 job" if len(left) == 1 else f"{len(left)} jobs"
            logger.info(f"Cancelled {count} that an earlier run left in the queue.")
    if not workflow.local_exec:
        cluster.allow_continuing(workflow)
    queue.remove_temporaries()


def tell_leftovers():
    """Name figures that another study left here: nobody should take them for this one's."""
    left = sorted(set(glob.glob(paths.picture("*"))) - set(jobs.pictures))
    if left:
        logger.info(f"Of another study, and not made again: {', '.join(left)}.")


terminal.in_dry_run(workflow, announce)


def reported(product):
    """The outputs of a product; the report shows the last one, if there is a caption for it."""
    *others, last = map(update, product.outputs)
    if product.caption:
        last = report(last, caption="caption.rst", category=product.category, labels={product.kind: product.title})
    return [*others, last]


def published():
    """What a study makes beside its cells."""
    found = [rules.collect.output, rules.collect_theory.output, rules.calibrate.output]
    found += [rules.budget.output, rules.crossings.output, *([rules.ladder.output] if jobs.ladders else [])]
    return [*found, jobs.products]
