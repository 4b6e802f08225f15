# Two commands do all the set-up: `make grade` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv/bin/python
RUN := $(VENV) -m grader
STEP_OPTION = $(if $(STEP),--step $(STEP))

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'
	@echo "  STEP=4 picks one step, e.g. make grade STEP=4; KIT_LANG=ko speaks Korean"

.venv/ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; type: make $(or $(MAKECMDGOALS),grade) PYTHON=python3.12"; exit 2; }
	@echo "Making .venv (once; torch is large)"
	@$(PYTHON) -m venv .venv
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@touch $@

.venv/ready-instructor: .venv/ready requirements-instructor.lock
	@echo "Adding what instructors need"
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements-instructor.lock
	@touch $@

.venv/ready-test: .venv/ready-instructor requirements-test.lock
	@echo "Adding what the tests need"
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements-test.lock
	@touch $@

.PHONY: grade
grade: .venv/ready ## Grade your exercises
	@$(RUN) grade $(STEP_OPTION)

.PHONY: report
report: .venv/ready ## Grade, and open the report as a page in the browser
	@mkdir -p dist
	@$(RUN) grade $(STEP_OPTION) --html dist/report.html --open

.PHONY: watch
watch: .venv/ready ## Grade each save as it happens (STEP=4 begins there)
	@$(RUN) watch $(STEP)

.PHONY: hint
hint: .venv/ready ## One hint more: STEP=4
	@$(RUN) hint $(STEP)

.PHONY: lesson
lesson: .venv/ready ## Read the lesson: STEP=4
	@$(RUN) lesson $(STEP)

.PHONY: reset
reset: .venv/ready ## Back to the stub, your work kept beside it: STEP=4
	@$(RUN) reset $(STEP)

.PHONY: doctor
doctor: .venv/ready ## What works here, what does not, and what mends it
	@$(RUN) doctor

.PHONY: demo
demo: .venv/ready ## Tokenise a text and let a small GPT go on with it (TEXT="...", MODEL=mine)
	@$(VENV) -m grader.demo $(if $(TEXT),"$(TEXT)") $(if $(MODEL),--model $(MODEL))

.PHONY: test
test: .venv/ready-test ## Run the kit's own tests
	@$(VENV) -m pytest -q -n logical --maxprocesses 4 --dist loadfile

.PHONY: prove
prove: .venv/ready-test ## Prove one step while you write it: STEP=4
	@$(VENV) -m grader.authoring $(STEP)
	@KIT_ONLY=$(STEP) $(VENV) -m pytest -q tests/test_course.py

.PHONY: check
check: .venv/ready-test lint fresh test ## Everything that must hold before a change lands

.PHONY: lint
lint: .venv/ready-test ## Format, lint and types
	@$(VENV) -m ruff format --check .
	@$(VENV) -m ruff check .
	@$(VENV) -m mypy

.PHONY: fresh
fresh: .venv/ready-test ## Nothing generated is stale, and nothing of a reference stands outside solutions/
	@$(VENV) -m tests.fresh

.PHONY: exercises
exercises: .venv/ready ## Write the stubs anew; a file you have worked on is left alone
	@$(RUN) exercises

.PHONY: messages
messages: .venv/ready-test ## Collect new sentences for translation and compile the catalogue
	@$(VENV) -m grader.translations update
	@$(VENV) -m grader.translations compile

.PHONY: record
record: .venv/ready ## Record what a learner's copy answers from; `make kit` does it for itself
	@$(RUN) record

.PHONY: kit
kit: .venv/ready ## Build the learner's copy, without the solutions: dist/kit/ and dist/kit.zip
	@$(RUN) kit

.PHONY: release
release: .venv/ready-instructor ## Build a course for nbgrader: dist/nbgrader/ (KIT_LANG=ko for Korean)
	@$(RUN) release

.PHONY: class
class: .venv/ready ## Grade a class, one folder a student: SUBMISSIONS=examples/course/submissions
	@$(RUN) class $(if $(SUBMISSIONS),"$(SUBMISSIONS)") $(STEP_OPTION)

.PHONY: gradescope
gradescope: .venv/ready ## Build the autograder for Gradescope: dist/gradescope.zip
	@$(RUN) gradescope

.PHONY: misconceptions
misconceptions: .venv/ready-test ## Write the pages that list every known wrong way
	@$(VENV) -m tests.misconceptions_page

.PHONY: security
security: .venv/ready-test ## Every attack against every set of layers, and docs/security.md from it (ATTACKS="..." for some)
	@$(VENV) -m tests.security_page $(ATTACKS)

.PHONY: soak
soak: .venv/ready-test ## 500 submissions, right, wrong and hostile, through one warm grader (takes minutes)
	@$(VENV) -m tests.soak

.PHONY: fuzz
fuzz: .venv/ready-test ## Seek bytes that break the decoder of answers, guided by coverage (EXAMPLES=20000)
	@KIT_FUZZ=$(or $(EXAMPLES),20000) $(VENV) -m pytest -q tests/test_messages.py -k guided

.PHONY: bench-grade
bench-grade: .venv/ready ## How fast grading is, as ratios to importing torch
	@$(VENV) -m tests.bench_grade

.PHONY: bench-class
bench-class: .venv/ready-instructor ## A class through nbgrader and through this kit, side by side (takes minutes)
	@$(VENV) -m tests.bench_class

.PHONY: bench-watch
bench-watch: .venv/ready ## How soon a save has its verdict, as a ratio to importing torch
	@$(VENV) -m tests.bench_watch

.PHONY: screenshots
screenshots: .venv/ready-test ## The pictures of the README, from real runs
	@$(VENV) -m tests.screenshots

.PHONY: format
format: .venv/ready-test ## Format the code
	@$(VENV) -m ruff format .
	@$(VENV) -m ruff check --fix .

.PHONY: lock
lock: ## Pin anew what pip picks today
	@tools=$$(mktemp -d) && $(PYTHON) -m venv $$tools && $(PYTHON) tests/lock.py $$tools/bin/python && rm -r $$tools

.PHONY: bench-diagnosis
bench-diagnosis: .venv/ready ## How many wrong ways are named, under 50 seeds (takes minutes; STEP=step04 for one)
	@$(VENV) -m tests.bench_diagnosis 50 $(STEP)
