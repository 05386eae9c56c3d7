"""The page that says how many samples reach a target error."""

from koct.report.product import Product

PRODUCT = Product(
    title="the planner",
    about="a [page](how-many-samples.md#the-planner-page) that says how many samples reach a target error: "
    "open it in a browser",
    reads=("cells.parquet",),
    takes=("metrics",),
    files=("planner.html",),
    caption="""\
**How many samples reach a target error**, for every sweep of this study: choose a target, and read N with its interval,
the curves, and the chance of the target against N.""",
)


def write(paths, out, spec):
    from koct.forecast.pilot import PilotFile
    from koct.report.planner import page

    print(page.write(PilotFile(paths[0]), out[0], spec=spec), flush=True)
