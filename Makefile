# Two commands do all the set-up: `make grade` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv/bin/python
RUN := KIT_TYPED=make $(VENV) -P grader/__main__.py
# What was typed behind the command, STEP=4 and the like, as words for a shell.
NAMES = $(strip $(foreach name,$(filter-out ALL PYTHON VENV KIT_%,$(.VARIABLES)),$(if $(filter command,$(firstword \
  $(origin $(name)))),$(name))))
TYPED = $(foreach name,$(NAMES),'$(name)=$(subst ','\'',$($(name)))')
COMMANDS := $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\#> .*/\1/p' $(firstword $(MAKEFILE_LIST)))
.PHONY: $(COMMANDS) $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

.DEFAULT_GOAL := help

KOREAN := $(if $(filter ko%,$(firstword $(KIT_LANG) $(LC_ALL) $(LC_MESSAGES) $(LANG))),grader/locale/make.ko.txt)

help: ## learn: Show this list (ALL=1: and what only those who maintain the kit need)
	@awk -v all="$(ALL)" ' \
	  function show(group, text) { if (lines[group] != "") printf "%s\n%s", said("+" group, text), lines[group] } \
	  function said(name, text) { return name in korean ? korean[name] : text } \
	  FILENAME ~ /ko[.]txt$$/ { name = $$0; sub(/: .*/, "", name); sub(/^[^:]*: /, ""); korean[name] = $$0; next } \
	  /^[a-z0-9-]+:.*##>? [a-z]+: / { \
	    name = group = text = $$0; sub(/:.*/, "", name); sub(/.*##>? /, "", group); sub(/:.*/, "", group); \
	    sub(/.*##>? [a-z]+: /, "", text); lines[group] = lines[group] sprintf("  make %-15s %s\n", name, said(name, text)) } \
	  END { show("daily", "Learn, every day"); show("learn", "Learn"); show("teach", "Teach"); \
	    show("make", "Make: write steps, change the kit"); \
	    if (all) show("kit", "Maintain the kit"); else if (lines["kit"] != "") \
	      print said("+more", "make help ALL=1 lists what else those who maintain the kit use"); \
	    print said("+steps", "STEP=4, STEP=1-6,13 or TRACK=positions chooses steps, e.g. make grade STEP=4; KIT_LANG=ko speaks Korean") }' \
	  $(wildcard $(KOREAN)) $(firstword $(MAKEFILE_LIST))

.venv/ready: requirements/base.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; type: make $(or $(MAKECMDGOALS),grade) PYTHON=python3.12"; exit 2; }
	@echo "Making .venv (once; torch is large)"
	@$(PYTHON) -m venv .venv
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements/base.lock
	@# So that `python exercises/step08_multi_head.py` finds the package `exercises`. A relative path may be moved. The
	@# other line: `python -m grader` next to a file `types.py` loads what Python needs for it before it looks there.
	@$(VENV) -c 'import pathlib as p, sysconfig as s; p.Path(s.get_path("purelib"), "exercises.pth").write_text("../../../..\n" \
	  "import sys; \"grader\" in sys.orig_argv[1:4] and __import__(\"runpy\")\n")'
	@# As pip does for packages: where Python may write no bytecode, every command would compile the kit again.
	@$(VENV) -m compileall -q grader || true
	@touch $@

.venv/ready-class: .venv/ready requirements/class.lock
	@echo "Adding what reads downloads and writes notebooks"
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements/class.lock
	@touch $@

.venv/ready-instructor: .venv/ready-class requirements/instructor.lock
	@echo "Adding what instructors need"
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements/instructor.lock
	@touch $@

.venv/ready-lab: .venv/ready requirements/lab.lock
	@echo "Adding what labs draw with"
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements/lab.lock
	@touch $@

.venv/ready-page: .venv/ready-lab requirements/page.lock
	@echo "Adding what the course's page is served with"
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements/page.lock
	@touch $@

.venv/ready-test: .venv/ready-instructor .venv/ready-page .venv/ready-site requirements/test.lock
	@echo "Adding what the tests need"
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements/test.lock
	@touch $@

.venv/ready-mutate: .venv/ready-test requirements/mutate.lock
	@echo "Adding what puts small faults into modules"
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements/mutate.lock
	@touch $@

.venv/ready-site: .venv/ready-instructor requirements/site.lock
	@echo "Adding what the site is built with"
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements/site.lock
	@touch $@

# --- the commands of `python -m grader`: what is typed here goes there as it is, `make grade STEP=4` ---
course: .venv/ready-page ##> daily: Open the course in the browser: lessons, labs, and each save's verdict (STEP=4 opens there)
explore: .venv/ready-page ##> daily: Look inside your own GPT: what each head attends to, and why it says what it says
grade: .venv/ready ##> daily: Grade your exercises
report: .venv/ready ##> learn: Grade, and open the report as a page in the browser
watch: $(if $(PAGE),.venv/ready-page,.venv/ready) ##> daily: Grade each save as it happens (STEP=4 begins there, PAGE=1 shows it in the browser)
hint: .venv/ready ##> daily: One hint more for the current step, or for STEP=4
lesson: $(if $(PAGE),.venv/ready-page,.venv/ready) ##> daily: Read the lesson of the current step, or of STEP=4 (PAGE=1: in the browser, pictures drawn)
solution: .venv/ready ##> daily: After green: the reference and other right ways, with what they trade: STEP=4
repro: .venv/ready ##> learn: Run the failing call in a process of your own, where breakpoint() works: STEP=4
reset: .venv/ready ##> learn: Back to the stub, your work kept beside it: STEP=4
tracks: .venv/ready ##> learn: List the tracks: what each needs and how far you are
begin: .venv/ready ##> learn: Write the stubs of a track into exercises/: TRACK=positions
exercises: .venv/ready ##> learn: Write the stubs again; a file you have worked on is left alone
doctor: .venv/ready ##> learn: What works here, what does not, and how to fix it
lab: .venv/ready-lab ##> learn: Labs: experiments with your own code (NAME=flash runs one)
train: .venv/ready-lab ##> learn: Train your own GPT (TEXT=file, SECONDS=120, RESUME=1, FROM=kit, BYTES=1; TEXT=torch: it learns to write PyTorch)
generate: .venv/ready ##> learn: Have the trained GPT go on with a text (TEXT="...", TEMPERATURE=0.8, TOP_K=20)
gpt2: .venv/ready ##> learn: Load GPT-2's weights into your GPT (TEXT="...", FOLDER=where the files are)
demo: .venv/ready-lab ##> learn: Tokenise a text and let a small GPT go on with it (TEXT="...", MODEL=mine)
class: .venv/ready-class ##> teach: Grade a class, one folder per student: SUBMISSIONS=examples/course/submissions (ASSIGNMENT=scores)
term: .venv/ready ##> teach: Check assignments.toml, and put the marks of all its assignments into one table
project: .venv/ready-class ##> teach: What to project tomorrow, without names, and for staff the code beside it (RESULTS=dist/class)
items: .venv/ready-class ##> teach: How each check did in a class, and wrong answers without a name (RESULTS=dist/class, DRAFT=1)
similar: .venv/ready-class ##> teach: Pairs of submissions more alike than chance: SUBMISSIONS=folder (KNOWN=last-year, RESULTS=dist/class)
feedback: .venv/ready-class ##> teach: The students' pages as a zip file for Moodle or Canvas (RESULTS=dist/class, TO=canvas)
gradescope: .venv/ready ##> teach: Build the autograder for Gradescope: dist/gradescope.zip
convert: .venv/ready ##> teach: A report as Otter, PrairieLearn or Gradescope read it: REPORT=report.json TO=otter
release: .venv/ready-class ##> teach: Build a course for nbgrader: dist/nbgrader/ (KIT_LANG=ko for Korean)
nbgrader: .venv/ready-instructor ## teach: Add nbgrader, and JupyterLab with it, for what follows `make release`
	@.venv/bin/nbgrader --version

kit: .venv/ready ##> teach: Build the learner's copy: dist/kit/ and dist/kit.zip (SOLUTIONS=1: make solution works in it)
messages: .venv/ready-test ##> make: Collect new sentences for translation (STEP=13: those of one step)
site: .venv/ready-site ##> make: Build the site, in both languages: dist/site/index.html
record: .venv/ready ##> kit: Record what a learner's copy answers from; `make kit` does it for itself
release-kit: .venv/ready-test ##> kit: Build what is released: the kit's zip, a wheel, the instructor's bundle: dist/release/
$(COMMANDS):
	@$(RUN) $@ $(TYPED)

triton: .venv/ready ## learn: Add Triton, which step 29 needs (Linux, 300 MB)
	@$(VENV) -m pip install --quiet --disable-pip-version-check -r requirements/triton.lock
	@$(RUN) doctor

test: .venv/ready-test ## make: Run the kit's own tests: few seeds, a sample of the attacks
	@$(VENV) -m pytest -q -p no:cacheprovider -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations 20 \
	  -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

prove: .venv/ready-test ## make: Prove one step while you write it: STEP=4
	@$(RUN) lint $(STEP)
	@$(VENV) -c "from grader.author import regime_table; regime_table.show('$(STEP)')"
	@KIT_ONLY=$(STEP) $(VENV) -m pytest -q -p no:cacheprovider -o python_files=truth.py tests/solutions/test_course.py tests/solutions/test_few_messages.py solutions

check: export KIT_WHOLE ?= 1
check: .venv/ready-test lint fresh docs test ## make: Everything that must hold before a change lands

lint: .venv/ready-test ## make: Format, lint, types, and which room imports which
	@$(VENV) -m ruff format --check .
	@$(VENV) -m ruff check .
	@$(VENV) -m mypy
	@.venv/bin/lint-imports --no-cache 2>&1 | sed -n '/^Contracts/,$$p'; exit $${PIPESTATUS[0]}

fresh: .venv/ready-test ## make: Nothing generated is stale, and nothing of a reference stands outside solutions/
	@$(VENV) -m tools.fresh

readme: .venv/ready-test ## make: Update what is generated in the READMEs and docs/
	@$(VENV) -m tools.floors
	@$(VENV) -c "from grader.author import pages; pages.write()"

first-day: .venv/ready-test ## kit: The wheel as a learner gets it: installed, started, wrong and right, with times (WHEEL=file)
	@$(VENV) -m tools.first_day $(WHEEL)

docs: .venv/ready-test ## make: Build the pages made of code and of recorded runs: dist/docs/
	@$(VENV) -m grader.publish.mistakes_page
	@$(VENV) -m tools.security_page pages
	@echo "dist/docs/ has the catalogue of mistakes and what isolation was shown to hold, in English and Korean"

security: .venv/ready-test ## kit: Every attack against every set of layers, and dist/docs/security.md from it (ATTACKS="..." for some)
	@$(VENV) -m tools.security_page $(ATTACKS)

soak: .venv/ready-test ## kit: 500 submissions, right, wrong and hostile, through one warm grader (COUNT=500; FULL=1: a full disk)
	@$(VENV) -m tools.soak $(COUNT) $(if $(FULL),--nearly-full)

fuzz: .venv/ready-test ## kit: Seek bytes that break the decoder of answers, guided by coverage (EXAMPLES=20000)
	@KIT_FUZZ=$(or $(EXAMPLES),20000) $(VENV) -m pytest -q tests/calls/test_messages.py -k guided

# MODULE=grader/marks/sheets.py TESTS="tests/judge/test_bounds.py tests/marks/test_assignments.py"; it works in a copy.
mutate: .venv/ready-mutate ## kit: Small faults in a module that its tests have to notice: MODULE=file TESTS="files" (takes long)
	@rm -rf dist/mutate && mkdir -p dist/mutate && git ls-files -z | xargs -0 cp --parents -t dist/mutate
	@ln -s "$(CURDIR)/.venv" dist/mutate/.venv
	@cd dist/mutate && sed -e 's|MODULE"|$(MODULE)"|' -e 's|TESTS"|$(TESTS)"|' tools/mutate.toml > mutate.toml && \
	  .venv/bin/cosmic-ray init mutate.toml session.sqlite && .venv/bin/cosmic-ray exec mutate.toml session.sqlite && \
	  .venv/bin/cr-report session.sqlite --surviving-only --show-diff

bench-grade: .venv/ready ## kit: How fast grading is, as ratios to importing torch
	@$(VENV) -m tools.bench_grade

bench-class: .venv/ready-instructor ## kit: A class through nbgrader and through this kit, side by side (takes minutes)
	@$(VENV) -m tools.bench_class

bench-watch: .venv/ready ## kit: How soon a save has its verdict, as a ratio to importing torch
	@$(VENV) -m tools.bench_watch

bench-explore: .venv/ready-test ## kit: How soon a typed text is seen inside a GPT, as a ratio to a plain forward pass
	@$(VENV) -m tools.bench_explore

screenshots: .venv/ready-test ## kit: The pictures of the README, from real runs
	@$(VENV) -m tools.screenshots

format: .venv/ready-test ## make: Format the code
	@$(VENV) -m ruff format .
	@$(VENV) -m ruff check --fix .

lock: ## kit: Pin anew what pip picks today
	@tools=$$(mktemp -d) && $(PYTHON) -m venv $$tools && $(PYTHON) tools/lock.py $$tools/bin/python && rm -r $$tools

bench-diagnosis: .venv/ready ## kit: How many wrong ways are named, under 50 seeds (takes minutes; STEP=step04 for one)
	@$(VENV) -m tools.bench_diagnosis 50 $(STEP)

# It takes the Python of the machine, whose torch has CUDA; .venv has one that may not.
cuda: $(if $(filter cpu,$(DEVICE)),.venv/ready-lab) ## kit: On a GPU: what no CPU can show, in 8 minutes (DEVICE=cpu tries its parts)
	@$(if $(filter cpu,$(DEVICE)),$(VENV),$(PYTHON)) -m tools.cuda $(if $(DEVICE),--device $(DEVICE)) $(if $(filter cpu,$(DEVICE)),--quick)
