#!/usr/bin/env bash
# Runs unit tests, laws and the demonstration under every Python from 3.11 on that this machine has: on the PATH as
# python3.N, and pyenv's; MINORS="12 13" chooses. Each gets a virtual environment of its own below .pythons. Ends with 1
# if one of them is red.
set -euo pipefail
cd "$(dirname "$0")/.."
worst=0
for minor in ${MINORS:-11 12 13 14}; do
  python=$(ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.$minor.*/bin/python3 2>/dev/null | tail -1 || true)
  [ -n "$python" ] || python=$(command -v "python3.$minor" || true)
  if [ -z "$python" ] || ! "$python" -c 'import venv' 2>/dev/null; then
    echo "3.$minor: not on this machine"
    continue
  fi
  place=.pythons/3.$minor
  [ -x "$place/bin/python" ] || "$python" -m venv "$place"
  "$place/bin/python" -m pip install -q --disable-pip-version-check --constraint tests/constraints.txt --editable ".[dev]"
  echo "$("$place/bin/python" -V):"
  PYTHONDONTWRITEBYTECODE= "$place/bin/python" -m pytest -q -p no:cacheprovider --numprocesses=2 tests/unit tests/properties || worst=1
  PYTHONDONTWRITEBYTECODE= "$place/bin/python" -m kraft._tools.demo || worst=1
done
exit $worst
