# What every stage needs: the package, and the jobs of the study.
# Snakemake copies every name that is global here several times for each job of a dry run: there are few.

import gc

gc.set_threshold(1_000_000)  # a DAG is many objects and no garbage: looking for it takes an eighth of a large dry run

# Jobs run the package beside the Snakefile with the Python that runs Snakemake, and import nothing from the working
# folder by accident.
os.environ.update(
    PYTHONPATH=os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")])),
    PYTHONSAFEPATH="1",
    PATH=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]),
    KOCT_TORCHRUN=os.path.join(ROOT, "rules", "torchrun.sh"),
)

from koct.workflow import cluster, planned, queue, resources, when
from koct.study import paths
from koct.report import products
from koct.workflow.jobs import Jobs

deployed = bool(workflow.deployment_settings.deployment_method)  # jobs run in environments of conda
cluster.complete(config, workflow.config_settings.overwrite_config)

try:
    if deployed and not os.path.isdir(os.path.join(ROOT, "koct")):
        raise KoctError("--sdm conda needs a clone of koct, whose package its environments import; leave it out")
    queue.check_folders()
    jobs = Jobs(config)
    if workflow.is_main_process:
        resources.check(jobs.study, jobs.settings, workflow.resource_settings.nodes is None, deployed)
except KoctError as error:
    raise WorkflowError(str(error))
os.environ.update(jobs.environment())


def announce():
    """Say what is about to run and what it asks a cluster for; a KoctError if that would be in vain."""
    when.refuse_others(jobs.study, (path for job in workflow.dag.needrun_jobs() for path in job.output))
    sweeps = "1 sweep" if len(jobs.study) == 1 else f"{len(jobs.study)} sweeps"
    logger.info(f"Study {config['study']}: {sweeps}, {len(jobs.cells)} cells, device {jobs.device}.")
    if os.path.isdir(paths.BROUGHT):
        reasons = ", ".join(f"{count} of {reason}" for reason, count in jobs.refused.items())
        others = f"; {jobs.refused.total()} there do not: {reasons}" if reasons else ""
        logger.info(f"{len(jobs.brought)} rows in {paths.BROUGHT} stand in for fits{others}.")
    for sweep in jobs.study:
        if words := sweep.problem.understood():
            logger.info(f"{sweep.name}: {words}.")
        if sweep.theory and sweep.no_theory_pool:
            logger.info(f"Curves of {sweep.name} are not predicted before their fits: {sweep.no_theory_pool}.")
    if cluster.site():
        submissions = cluster.planned(workflow.dag)
        logger.info(cluster.in_words(submissions))
        cluster.check(submissions, workflow.executor_settings, logger, deployed)


def greet():
    """Say what is about to run, and clear away what is not of it."""
    try:
        if words := plan():
            logger.info(f"To do: {words}.")
    except KoctError as error:
        raise WorkflowError(str(error))
    queue.remove_temporaries()
    own = {*jobs.products, *(path for job in workflow.dag.jobs for path in job.output)}
    if moved := products.set_aside(own, rules.ladder.output):  # nobody should take them for this study's
        logger.info(f"Of another study, now in {os.path.commonpath(moved)}: {len(moved)} files.")


def plan():
    """Say what would run, and return how long that would take here; what a cluster is asked for has been said."""
    announce()
    cores = workflow.resource_settings.cores
    if cluster.site() or not cores:
        return None
    return resources.in_words(list(workflow.dag.needrun_jobs()), jobs.sweeps, jobs.device, cores)


queue.listen(workflow, logger, jobs.large_groups, plan)


def reported(product):
    """The outputs of a product; the report shows the last one, if there is a caption for it."""
    *others, last = map(update, product.outputs)
    if product.caption:
        last = report(last, caption="caption.rst", category=product.category, labels={product.kind: product.title})
    return [*others, last]


def published():
    """What a study makes beside its cells."""
    found = [rules.collect.output, rules.collect_theory.output, rules.calibrate.output]
    found += [rules.budget.output, rules.crossings.output, *([rules.ladder.output] if jobs.chains else [])]
    return [*found, jobs.products]
