"""Tables of README and docs are what the reference results say."""

import importlib.util

import pytest
from conftest import ROOT

SPEC = importlib.util.spec_from_file_location("pages", ROOT / "benchmarks/pages.py")
pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pages)


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: page.name)
def test_the_tables_of_a_page_are_up_to_date(page):
    text = page.read_text(encoding="utf-8")
    assert pages.written(text) == text, "run: python benchmarks/pages.py"


def test_every_table_stands_on_a_page():
    text = "".join(page.read_text(encoding="utf-8") for page in pages.pages())
    assert {mark[2] for mark in pages.MARK.finditer(text)} == set(pages.TABLES)
