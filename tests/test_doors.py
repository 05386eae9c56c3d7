"""Other people's code is used through its doors: nothing of it is replaced from outside."""

import ast

from conftest import ROOT


def offenders(text):
    """Yield (line, name) of assignments to attributes of imported modules and classes that are not koct's."""
    tree = ast.parse(text)
    foreign = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            foreign |= {(alias.asname or alias.name).split(".")[0] for alias in node.names if alias.name[:4] != "koct"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "")[:4] != "koct":
            foreign |= {alias.asname or alias.name for alias in node.names}
    for node in ast.walk(tree):
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            targets = [ast.Attribute(node.args[0], "…")]
        for target in targets:
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Attribute) and ast.unparse(part.value).split(".")[0] in foreign:
                    yield node.lineno, ast.unparse(part)


def python_of(path):
    """The Python of a file; of rules, the lines that stand alone."""
    text = path.read_text()
    if path.suffix == ".py":
        return text
    lines = []
    for line in text.splitlines():
        try:
            ast.parse(line)
        except SyntaxError:
            line = ""
        lines.append(line)
    return "\n".join(lines)


def test_nothing_of_others_is_replaced():
    files = [*(ROOT / "koct").rglob("*.py"), ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]
    assert len(files) > 150
    found = [f"{path.relative_to(ROOT)}:{line} {name}" for path in files for line, name in offenders(python_of(path))]
    assert not found, "\n".join(found)


def test_a_replaced_attribute_is_noticed():
    text = "import a.b as c\nfrom d import E\nc.x = 1\nE.y, z = 1, 2\nsetattr(E, 'w', 0)\nz.v = 3\ndel c.u\n"
    assert sorted(offenders(text)) == [(3, "c.x"), (4, "E.y"), (5, "E.…"), (7, "c.u")]
