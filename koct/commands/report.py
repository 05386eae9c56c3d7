"""Verbs that show what a study has computed: its tables, figures and pages, and the description of all of them."""

from koct.commands.arguments import OUT, OUTS, POOL, REPORT, SHARED, SPEC


def product(name, files, spec, out):
    from koct.report import products

    products.make(name, files, out, spec)


def figure_recons(fits, pool, shared, spec, out):
    from koct.report.figures import fig_recons

    fig_recons.recons(fits, {"pool": pool, **({"shared": shared} if shared else {})}, out, spec)


def crate(files, spec, out):
    from koct.report import crate

    crate.write(files, out, spec)


# verb: (function, what it does, its arguments)
VERBS = {
    "product": (
        product,
        "a table, figure or page of results, like table_calibration or fig_sweeps",
        [
            ("name", {"metavar": "NAME", "help": "its name: that of its file in koct/report"}),
            (
                "files",
                {"nargs": "*", "metavar": "FILE", "help": "what it is made from, in the order of its `reads`"},
            ),
            REPORT,
            OUTS,
        ],
    ),
    "figure-recons": (
        figure_recons,
        "test images and their reconstructions, a row per architecture and a column per N",
        [
            ("--fits", {"nargs": "+", "metavar": "FILE", "help": "what `fit` wrote, of one sweep and seed"}),
            POOL,
            SHARED,
            REPORT,
            OUTS,
        ],
    ),
    "crate": (
        crate,
        "an RO-Crate that describes the results of a study",
        [("files", {"nargs": "+", "metavar": "FILE", "help": "the results"}), SPEC, OUT],
    ),
}
