"""What a module of `tables`, `figures` or `pages` declares about the files that it makes."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = {"tables": "table", "figures": "figure", "pages": "page"}  # folder: what a module of it makes
FILES = {  # below results/, unless a product names its own
    "table": ("{name}.tex", "report/{name}.html"),
    "figure": ("{name}.pdf", "{name}.png", "report/{name}.png"),
}
SUPPLEMENT = "4 Supplement"
CATEGORIES = {"page": "1 Answer, planner, claims", "figure": "2 Figures", "table": "3 Tables"}  # of the report


@dataclass(frozen=True)
class Product:
    """A table, figure or page. All values are literals: planning reads them without importing the module.

    Attributes
    ----------
    title : what the report calls it
    about : what it is, for docs/results.md
    caption : what one sees and what follows from it, for the report, in reStructuredText; without one, it is not there
    reads : the files of results/ that it is made from
    pictures : whether it also reads the reconstructions of every sweep that has some
    when : the function of `koct.workflow.when` that says whether a study has it
    takes : what it has to know of the study, as keyword arguments: functions of `koct.workflow.when`, keys of sweeps,
        or what `about` of `koct.workflow.jobs` has
    files : what it makes in results/; the last one is shown in the report. `{sweep}` stands for every sweep of `when`
    timings : whether a table or figure tells times or devices of fits: it is made again when they alone change. The
        stamp of a page says it (`koct.base.stamps.of_timed`)
    supplement : whether it stands behind the others in the report
    name, kind, module : those of its module, which is a dotted name
    """

    title: str
    about: str
    caption: str = ""
    reads: tuple[str, ...] = ()
    pictures: bool = False
    when: str = "always"
    takes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    timings: bool = False
    supplement: bool = False
    name: str = ""
    kind: str = ""
    module: str = ""

    @property
    def inputs(self) -> list[str]:
        return [f"results/{file}" for file in self.reads]

    @property
    def outputs(self) -> list[str]:
        return [f"results/{file.format(name=self.name, sweep='{sweep}')}" for file in self.files or FILES[self.kind]]

    @property
    def per_sweep(self) -> bool:
        """Return whether every sweep has files of its own."""
        return any("{sweep}" in path for path in self.outputs)

    @property
    def category(self) -> str:
        return SUPPLEMENT if self.supplement else CATEGORIES[self.kind]
