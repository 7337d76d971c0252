#!/usr/bin/env bash
# Runs unit tests, laws and the demonstration under every Python from 3.11 on that this machine has (tests/pythons.py);
# MINORS="12 13" chooses. Each gets a virtual environment of its own below .pythons. Ends with 1 if one of them is red.
set -euo pipefail
cd "$(dirname "$0")/.."
worst=0
while read -r version python; do
  place=.pythons/$version
  [ -x "$place/bin/python" ] || "$python" -m venv "$place"
  "$place/bin/python" -m pip install -q --disable-pip-version-check --constraint tests/constraints.txt --editable ".[dev]"
  echo "$("$place/bin/python" -V):"
  PYTHONDONTWRITEBYTECODE= "$place/bin/python" -m pytest -q -p no:cacheprovider --numprocesses=2 tests/unit tests/properties </dev/null || worst=1
  PYTHONDONTWRITEBYTECODE= "$place/bin/python" -m kraft._tools.demo </dev/null || worst=1
done < <("${PYTHON3:-python3}" -m tests.pythons ${MINORS:-})
exit $worst
