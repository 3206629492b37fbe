PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
QUIETLY := --disable-pip-version-check --quiet
PIP := $(BIN)/python -m pip $(QUIETLY)

# Keep bytecode whatever the caller's settings: tests start many processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test check size docs pictures lint warm tests bench format clean

run: $(VENV)/installed  ## the main job, on the embedded example
	@$(BIN)/pippin compare --out out

test:  ## lint, types, import contract, all tests
	@$(MAKE) --no-print-directory -j2 lint tests

# Tests write thousands of files and flush each to disk, which is fast in /dev/shm if it is large enough and not noexec.
IN_MEMORY := $(shell grep -s ' /dev/shm ' /proc/mounts | grep -qv noexec \
	&& df --output=avail /dev/shm | awk 'NR == 2 && $$1 > 4e6 { print "TMPDIR=/dev/shm" }')

# Three processes on two cores, since tests often wait for files and subprocesses. One process runs a whole file, so that
# fixtures of a module are made once.
PYTEST := $(IN_MEMORY) OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist loadfile

tests: $(VENV)/installed-test browser warm
	$(PYTEST)

# Tests that need NumPy, SciPy and numba only; files that name an optional package are excluded.
CORE := $(addprefix tests/,engine theory conformal validation decisions compare)
OPTIONAL := torch|sklearn|mapie|crepes|peers|array_kinds|blobs|named_columns
check: $(VENV)/installed-check warm  ## in short: lint, types, import contract and tests of the core
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy $(filter-out %/__pycache__/,$(wildcard src/pippin/_*/))
	$(PYTEST) $(CORE) $(addprefix --ignore=,$(shell grep -rlwE '$(OPTIONAL)' --include='*.py' $(CORE)))

size:  ## code lines (without blanks, comments and docstrings) of each part
	@$(PYTHON) tests/support/size.py

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# Compile once before the tests; otherwise each of their processes compiles.
warm: $(VENV)/installed
	$(BIN)/python -c "import pippin; pippin.warm_up()"

docs: $(VENV)/installed-docs  ## the site, every page of the gallery executed: out/site/index.html
	$(BIN)/python -m sphinx -a -W --keep-going -b html -d out/site-doctrees docs out/site

pictures: $(VENV)/installed-docs  ## the pictures of README.md and of the start page, in docs/_static
	$(BIN)/python docs/pictures.py

bench: $(VENV)/installed-test  ## times of pippin and of other libraries; DATA=file adds repeated splits of that file
	$(BIN)/python benchmarks/bench.py --out out/bench.json $(if $(DATA),--data $(DATA))

.PHONY: release-check
release-check: $(VENV)/installed-release  ## builds both packages and tries the wheel in an empty environment
	$(BIN)/python tests/support/release_check.py

$(VENV)/installed-release: pyproject.toml | $(BIN)/python
	@$(PIP) install --editable ".[release]"
	@touch $@

format: $(VENV)/installed-test  ## corrects what ruff can correct
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## removes the environment and all outputs
	rm -rf $(VENV) out dist docs/answers .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Python's own pip installs the newest pip, which is faster than copying its own; that of Python 3.11 takes twice as long
# to resolve versions.
$(BIN)/python:
	$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip $(QUIETLY) --python $@ install --no-compile pip 2>/dev/null || $@ -m ensurepip

$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV) (once) …"
	@$(PIP) install --no-compile --editable ".[report]"
	@touch $@

$(VENV)/installed-check: pyproject.toml | $(VENV)/installed
	@echo "Setting up the checks (once) …"
	@$(PIP) install --no-compile --editable ".[check]"
	@touch $@

# TorchCP's requirements cannot all be installed with a CPU build of torch; those of its scores are in the test extra.
$(VENV)/installed-test: pyproject.toml | $(VENV)/installed
	@echo "Setting up the tests (once) …"
	@$(PIP) install --no-compile --editable ".[test]"
	@$(PIP) install --no-compile --no-deps torchcp==1.2.1
	@touch $@

$(VENV)/installed-docs: pyproject.toml | $(BIN)/python
	@echo "Setting up the site (once) …"
	@$(PIP) install --no-compile --editable ".[docs]"
	@touch $(VENV)/installed $@

# The tests open reports in a real browser; install it if this user may, otherwise stop with a message.
.PHONY: browser
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	|| { echo "The tests open the report in a browser: please install Chromium (Debian: apt-get install chromium)."; exit 1; }
