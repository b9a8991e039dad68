# A thin door to run.py, which does the same on Windows: python run.py lab
PYTHON ?= python3

.PHONY: help setup lab test notebooks check accept format baseline oracle test-browser bench clean
help setup lab test notebooks check accept format baseline oracle test-browser bench clean:
	@$(PYTHON) run.py $@ $(ARGS)
