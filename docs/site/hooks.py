"""What the site has beside docs/*.md: README, notebooks, docstrings, pictures, and every file that a page links to."""

import json
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

import koct

ROOT = Path(__file__).resolve().parents[2]
# pages that are made here, and the file or folder of the repository that a link to them names
MADE = {"index.md": "README.md", "changes.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
GALLERY = "results/reference"


def on_files(files, config):
    """Add the pages that are made here, and every file outside docs/ that a page links to."""
    readme = (ROOT / "README.md").read_text()
    head, _, rest = readme.partition("## Two commands")
    findings = rest.partition("## Findings")[2].partition("## Your own problem")[0]
    start = "Begin with [five minutes](tutorial.md). The menu has guides, reference, findings, and how it works.\n"
    public = [getattr(koct, name) for name in koct.PUBLIC]
    pages = {
        "index.md": relative(head) + start,
        "findings.md": "# Findings\n" + relative(findings),
        "changes.md": relative((ROOT / "CHANGELOG.md").read_text()),
        "contributing.md": relative((ROOT / "CONTRIBUTING.md").read_text()),
        "gallery.md": gallery(),
        "api.md": "\n\n".join(["# Python", *(f"::: {which.__module__}.{which.__qualname__}" for which in public)]),
    }
    for path in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        pages[f"notebooks/{path.stem}.md"] = notebook(json.loads(path.read_text()))
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    for name in {name for file in files.documentation_pages() for name in outside(file.content_string)}:
        files.append(File.generated(config, f"repository/{name}", abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Lead links out of docs/ to what stands for it in the site."""
    up = "../" * page.file.src_uri.count("/")
    return re.sub(
        r"(\]\()\.\./([^)#\s]+)(#[^)]*)?", lambda link: link[1] + up + place(link[2], link[3] or ""), markdown
    )


def place(name, anchor):
    """Return where the site has a file or a folder of the repository."""
    name = name.rstrip("/")
    pages = {source: page for page, source in MADE.items()}
    if name in pages:
        return pages[name] + anchor
    if name == GALLERY or (name.startswith(GALLERY) and (ROOT / name).is_dir()):
        return "gallery.md#" + (name.removeprefix(GALLERY).strip("/") or "full")
    return f"repository/{named(name)}{anchor}"


def named(name):
    """Return a file that a link to it, or to its folder, shows."""
    return posixpath.join(name, "__init__.py") if (ROOT / name / "__init__.py").exists() else name


def outside(text):
    """Yield the files outside docs/ that a page shows, as the site has them."""
    for name in re.findall(r"\]\(\.\./([^)#\s]+)", text):
        if place(name, "").startswith("repository/"):
            yield named(name.rstrip("/"))


def relative(text):
    """Return the text of a page at the top of the repository as if it lay in docs/."""
    return re.sub(r"\]\((?!https?:|#)(docs/)?([^)\s]+)\)", lambda link: f"]({'' if link[1] else '../'}{link[2]})", text)


def gallery():
    """Return a page with every figure of results/reference, by study, and its pages."""
    lines = ["# Gallery", "", "Figures and pages of the reference, as `snakemake` made them."]
    for folder in [ROOT / GALLERY, *sorted(path for path in (ROOT / GALLERY).iterdir() if path.is_dir())]:
        figures, pages = sorted(folder.glob("fig_*.png")), sorted(folder.glob("*.html"))
        if figures or pages:
            lines += ["", f"## {'full' if folder.name == 'reference' else folder.name}", ""]
            lines += [f"[{path.name}](../{path.relative_to(ROOT)})\n" for path in pages]
            for path in (path.relative_to(ROOT) for path in figures):
                lines.append(f"[![{path.stem}](../{path})](../{path})\n")
    return "\n".join(lines)


def notebook(content):
    """Return a notebook with its outputs as Markdown."""
    parts = []
    for cell in content["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = {kind: "".join(lines) for kind, lines in output.get("data", {}).items()}
            if "image/png" in data:
                parts.append(f'<img alt="plot" src="data:image/png;base64,{data["image/png"].strip()}">')
            elif "text/html" in data:
                parts.append(re.sub(r"\n\s*\n", "\n", data["text/html"]))
            else:
                parts.append(f"```text\n{data.get('text/plain') or ''.join(output['text'])}\n```")
    return "\n\n".join(parts)
