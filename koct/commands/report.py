"""Verbs that show what a study has computed: tables, figures, claims, the report."""

from koct.commands.arguments import (
    BUDGETS,
    CALIBRATION,
    CELLS,
    CURVES,
    OUT,
    OUTS,
    POOL,
    REPORT,
    SHARED,
    SPEC,
    THEORY,
    file,
    optional,
)


def table_calibration(curves, calibration, spec, out):
    from koct.report import tables

    tables.calibration(curves, calibration, out, spec)


def table_calibration_wide(cells, curves, calibration, spec, out):
    from koct.report import calibration_table

    calibration_table.table(cells, curves, calibration, out, spec)


def table_norms(cells, curves, calibration, sweeps, spec, out):
    from koct.report import norms_table

    norms_table.table(cells, curves, calibration, out, sweeps, spec)


def figure_heldout(cells, curves, spec, out):
    from koct.report import heldout

    heldout.figure(cells, curves, out, spec)


def figure_factors(calibration, spec, out):
    from koct.report import factors

    factors.figure(calibration, out, spec)


def figure_sweeps(cells, curves, calibration, theory, spec, out):
    from koct.report import figures

    figures.sweeps(cells, curves, calibration, theory, out, spec)


def figure_theory(theory, spec, out):
    from koct.report import theory as report

    report.figure(theory, out, spec)


def table_theory(theory, cells, spec, out):
    from koct.report import theory as report

    report.table(theory, cells, out, spec)


def figure_recons(fits, pool, shared, spec, out):
    from koct.report import recons

    recons.recons(fits, {"pool": pool, **({"shared": shared} if shared else {})}, out, spec)


def table_scaling(curves, calibration, spec, out):
    from koct.report import tables

    tables.scaling(curves, calibration, out, spec)


def table_fullscale(spec, out):
    from koct.report import tables

    tables.fullscale(out, spec)


def norms(spec, out):
    from koct.report.tables import PRINTED
    from koct.study import norms

    norms.compute(PRINTED["operating_points"], out, spec)


def table_structural(norms, spec, out):
    from koct.report import tables

    tables.structural(norms, out, spec)


def table_budget(curves, budgets, spec, out):
    from koct.report import tables

    tables.budget(curves, budgets, out, spec)


def table_crossings(crossings, curves, spec, out):
    from koct.report import crossings as report

    report.table(crossings, curves, out, spec)


def figure_ladder(ladder, curves, spec, out):
    from koct.report import ladder as report

    report.figure(ladder, curves, out, spec)


def table_ladder(ladder, curves, calibration, budgets, spec, out):
    from koct.report import ladder as report

    report.table(ladder, curves, calibration, budgets, out, spec)


def table_conditions(curves, calibration, budgets, spec, out):
    from koct.report import conditions

    conditions.table(curves, calibration, budgets, out, spec)


def html_tables(tables, spec, out):
    from koct.report import html_tables

    html_tables.convert(tables, out, spec)


def previews(pictures, spec, out):
    from koct.report import previews

    previews.reduce(pictures, out, spec)


def claims(cells, curves, calibration, budgets, spec, out):
    from koct.report import claims

    claims.report(cells, curves, calibration, budgets, out, spec)


def crate(files, spec, out):
    from koct.report import crate

    crate.write(files, out, spec)


# verb: (function, what it does, its arguments)
VERBS = {
    "table-calibration": (
        table_calibration,
        "the calibration table in LaTeX",
        [CURVES, CALIBRATION, REPORT, OUT],
    ),
    "table-calibration-wide": (
        table_calibration_wide,
        "the calibration table with intervals over seeds in LaTeX",
        [CELLS, CURVES, CALIBRATION, REPORT, OUT],
    ),
    "table-norms": (
        table_norms,
        "norms, matched-kappa ratios and measured slope ratios in LaTeX",
        [
            CELLS,
            CURVES,
            CALIBRATION,
            optional(
                "--sweeps", "at operating points of the paper (default: all of their size)", nargs="*", metavar="SWEEP"
            ),
            REPORT,
            OUT,
        ],
    ),
    "figure-heldout": (
        figure_heldout,
        "predicted against measured error at the largest N, which no prediction has seen",
        [CELLS, CURVES, REPORT, OUTS],
    ),
    "figure-factors": (
        figure_factors,
        "the two factors of Proposition 1 over the target error, a panel per sweep",
        [file("calibration", "what `calibrate` wrote"), REPORT, OUTS],
    ),
    "figure-sweeps": (
        figure_sweeps,
        "error against N, a panel per sweep",
        [CELLS, CURVES, CALIBRATION, THEORY, REPORT, OUTS],
    ),
    "figure-theory": (
        figure_theory,
        "the predicted curves, a panel per sweep",
        [file("theory", "what `collect-theory` wrote"), REPORT, OUTS],
    ),
    "table-theory": (
        table_theory,
        "the table of predicted over measured errors in LaTeX",
        [file("--theory", "what `collect-theory` wrote"), CELLS, REPORT, OUT],
    ),
    "figure-recons": (
        figure_recons,
        "test images and their reconstructions, a row per architecture and a column per N",
        [
            ("--fits", {"nargs": "+", "metavar": "FILE", "help": "what `fit` wrote, of one sweep and seed"}),
            POOL,
            SHARED,
            REPORT,
            OUT,
        ],
    ),
    "table-scaling": (
        table_scaling,
        "the table of operating points and outcomes in LaTeX",
        [CURVES, CALIBRATION, REPORT, OUT],
    ),
    "table-fullscale": (table_fullscale, "the table of parameters and memory in LaTeX", [REPORT, OUT]),
    "norms": (norms, "compute the operator norms of the paper's operating points", [REPORT, OUT]),
    "table-structural": (
        table_structural,
        "the table of norms and matched-kappa references in LaTeX",
        [file("norms", "what `norms` wrote"), REPORT, OUT],
    ),
    "table-budget": (
        table_budget,
        "the table of budgets in LaTeX",
        [CURVES, BUDGETS, REPORT, OUT],
    ),
    "table-crossings": (
        table_crossings,
        "the table of how many samples beat what needs none in LaTeX",
        [file("--crossings", "what `crossings` wrote"), CURVES, REPORT, OUT],
    ),
    "figure-ladder": (
        figure_ladder,
        "error against N of networks between known and learned, a panel per sweep",
        [file("--ladder", "what `ladder` wrote"), CURVES, REPORT, OUTS],
    ),
    "table-ladder": (
        table_ladder,
        "the table of networks between known and learned in LaTeX",
        [file("--ladder", "what `ladder` wrote"), CURVES, CALIBRATION, BUDGETS, REPORT, OUT],
    ),
    "table-conditions": (
        table_conditions,
        "what dose, arc and other conditions do to the number of samples, in LaTeX",
        [CURVES, CALIBRATION, BUDGETS, REPORT, OUT],
    ),
    "claims": (
        claims,
        "what the paper states, statement by statement, and whether it holds in the results",
        [CELLS, CURVES, CALIBRATION, BUDGETS, REPORT, OUTS],
    ),
    "crate": (
        crate,
        "an RO-Crate that describes the results of a study",
        [("files", {"nargs": "+", "metavar": "FILE", "help": "the results"}), SPEC, OUT],
    ),
    "previews": (
        previews,
        "figures in the size of a screen",
        [("pictures", {"nargs": "+", "metavar": "FIGURE.png", "help": "what the figure verbs wrote"}), REPORT, OUTS],
    ),
    "html-tables": (
        html_tables,
        "tables in LaTeX as pages of HTML",
        [("tables", {"nargs": "+", "metavar": "TABLE.tex", "help": "what the table verbs wrote"}), REPORT, OUTS],
    ),
}
