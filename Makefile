# Every target does its own set-up: a virtual environment in .venv, made once.
PYTHON ?= python3
VENV ?= .venv
# A pair of releases known to work together; any later pair should do (make TORCH="torch torchvision").
TORCH ?= torch==2.14.1 torchvision==0.29.1
OUT ?= audit
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: audit test lint check schema docs clean

audit: $(STAMP)  ## Audit PA-CFL on scikit-learn's digits and write the report to $(OUT)/
	$(BIN)/privaudit audit pa-cfl -o $(OUT) --force

test: $(STAMP)  ## Run the whole test suite
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

lint: $(STAMP)  ## Run ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

docs: $(STAMP)  ## Build the documentation as a site in site/
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	$(BIN)/mkdocs build --strict

schema: $(STAMP)  ## Write the published JSON Schemas to docs/schema/
	$(BIN)/privaudit schema -o docs/schema

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet -e '.[all,test]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) $(OUT) site .mypy_cache .ruff_cache .pytest_cache
