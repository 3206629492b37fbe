PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run test format clean

run: $(VENV)/installed  ## the main job on the embedded example
	@$(BIN)/pippin example

test: $(VENV)/installed-test  ## lint, types, import contract, all tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2

format: $(VENV)/installed-test  ## what `make test` would complain about and can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## the environment and everything made
	rm -rf $(VENV) out dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV) (once) …"
	@$(PIP) install --editable .
	@touch $@

# TorchCP's own requirements cannot all be installed beside a CPU build of torch; what
# its scores need is in the test extra.
$(VENV)/installed-test: $(VENV)/installed
	@echo "Setting up the tests (once) …"
	@$(PIP) install --editable ".[test]"
	@$(PIP) install --no-deps torchcp==1.2.1
	@touch $@
