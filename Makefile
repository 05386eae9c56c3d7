# make        set up and run the default study
# make check  style, types, and the tests that are fast and start no Snakemake: before a commit
# make test   set up and run the tests that are quick
# make test-all  set up and run all tests, also on a SLURM if one answers, in a browser and with several ranks
# make test-newest  the quick tests with the newest release of everything, in .venv-newest
# make report run the default study and put it into one page, report.html
# make setup  only set up: koct and Snakemake. Tools of developers, and torch, come with check, lint, test and site
# make dist   build a wheel, with the workflow in it, in dist/
# make site   build the pages of docs/ as a site in site/: open site/index.html
# make slurm  set up for a SLURM cluster (docs/cluster.md)
# make faults set up, cause 162 faults (kills, damaged files, full disks), feed every reader with 10,000 damaged
#             inputs, and run what else is long, on a SLURM if one answers; takes an hour on two cores
PYTHON ?= python3
TORCH ?= torch
EXTRAS ?= workflow
VENV := .venv
NEWEST := .venv-newest
# Modules are compiled when they are first imported. Where that is switched off, importing torch takes 6 s, not 2.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

.PHONY: study report check test test-all test-newest setup slurm lint faults dist site
study: setup
	$(VENV)/bin/snakemake

report: study
	$(VENV)/bin/snakemake --report report.html

check: lint $(VENV)/torch
	$(VENV)/bin/$(PYTEST) -m 'not slow and not long and not workflow and not thorough'

test: $(VENV)/developer $(VENV)/torch
	$(VENV)/bin/$(PYTEST)

test-all: $(VENV)/developer $(VENV)/torch
	$(VENV)/bin/$(PYTEST) -m 'not long'

test-newest:
	$(PYTHON) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --editable '.[workflow,slurm,dev]' $(TORCH)
	$(NEWEST)/bin/python -m pip list
	$(NEWEST)/bin/$(PYTEST)

faults: $(VENV)/developer $(VENV)/torch slurm
	KOCT_FUZZ=10000 $(VENV)/bin/$(PYTEST) -v -m '' tests/faults
	$(VENV)/bin/$(PYTEST) -m long --ignore tests/faults

setup: $(VENV)/installed

slurm: $(VENV)/slurm-plugin

lint: $(VENV)/developer
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/snakefmt --check --diff Snakefile rules
	$(VENV)/bin/snakemake --lint

# Only the tests and a GPU need torch. A build that is already there stays: it may be the one that fits the GPU.
$(VENV)/torch: $(VENV)/installed
	$(VENV)/bin/python -c 'import torch' 2>/dev/null || \
		$(VENV)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt $(TORCH)
	touch $@

# Snakemake imports every plugin it finds, and SLURM's brings pandas: 0.7 s at every start, for those who need it.
$(VENV)/slurm-plugin: $(VENV)/installed
	$(VENV)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[slurm]'
	touch $@

$(VENV)/developer: $(VENV)/installed
	@echo "Installing the tools of developers into $(VENV): tests, linters, types, about 500 MB."
	$(VENV)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[workflow,dev]'
	touch $@

dist: setup
	$(VENV)/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .

site: $(VENV)/site
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml

$(VENV)/site: $(VENV)/installed
	$(VENV)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[site]'
	touch $@

# The last two lines do once what the first jobs would wait for: compiled modules and Matplotlib's list of fonts.
$(VENV)/installed: constraints.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("koct needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)
	@echo "Installing koct, Snakemake and what they need into $(VENV): about 710 MB, a minute or more. It happens once."
	$(VENV)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[$(EXTRAS)]'
	$(VENV)/bin/python -m compileall -q --invalidation-mode checked-hash koct
	$(VENV)/bin/python -c 'import matplotlib.font_manager'
	@du -sh $(VENV) | sed 's/\t.*/ installed in $(VENV)./'
	touch $@
