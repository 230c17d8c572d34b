# `make` lists the targets. Whatever needs the environment sets it up first, once per change of the lock.

BIN := .venv/bin
READY := .venv/.ready

export AIRFLOW_HOME := $(CURDIR)/.airflow
# `airflow standalone` starts itself through PATH.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Tests start hundreds of processes: compiled modules are kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup quick test docs soak cluster lint demo demo-kafka airflow bench docker-check lock

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: $(READY)  ## .venv with everything that is locked, Java if there is none

$(READY): environment/setup.sh environment/install_uv.sh environment/lock.txt $(wildcard environment/*.lock) \
          environment/jars.py environment/class_archive.sh airflow_backfill/spark/run/warm_up.py \
          setup.cfg setup.py
	environment/setup.sh
	touch $@

quick: lint  ## lint, and the tests that need neither Java nor a server: at most 90 seconds on two cores
	$(BIN)/python -m pytest -p tests.quick -n 2 -q

test: lint docs  ## everything CI runs
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=0 --durations-min=2

docs: $(READY)  ## the documentation as HTML, in build/docs; a warning is an error
	$(BIN)/sphinx-build -W -b html docs build/docs

soak: $(READY)  ## very many simulated builds, whole builds again, a large epoch, a dead broker, bugs put back: over two hours
	$(BIN)/python -m tests.simulation.hunt
	$(BIN)/python -m tests.simulation.soak $(SEEDS)
	$(BIN)/python -m pytest -m soak --durations=0

cluster: $(READY)  ## each strategy on a Spark cluster and S3, all on this machine, while driver and worker are killed
	$(BIN)/python -m pytest -v -m soak tests/system/test_cluster.py -k and_a_worker

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

demo: $(READY)  ## a table backfill from start to end, in a temporary directory
	$(BIN)/python -m demo

demo-kafka: $(READY)  ## a topic's history and what lands later as one table, checked by a plain Kafka client
	$(BIN)/python -m demo.kafka

airflow: $(READY)  ## Airflow on this machine, with the example DAGs
	environment/airflow.sh

bench: $(READY)  ## side by side with what one would do instead
	$(BIN)/python -m bench

docker-check: $(READY)  ## the container files, without a container engine
	$(BIN)/python -m pytest tests/test_docker.py

lock: $(READY)  ## resolve environment/lock.txt again, for Python 3.10 to 3.13
	$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header \
	  --extra dev --constraint environment/pins.txt --output-file environment/lock.txt setup.py
