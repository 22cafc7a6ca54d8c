#!/usr/bin/env bash
# The Python module with a program that was built here. Argument: the program. Code 77: no Python with NumPy and pytest.
set -euo pipefail
AFTERGLOW_PROGRAM=$(realpath "$1")
folder=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../python")
export AFTERGLOW_PROGRAM PYTHONPATH="$folder" PYTHONDONTWRITEBYTECODE=1
for python in python3 /usr/bin/python3; do
  ! "$python" -c 'import numpy, pytest' 2>/dev/null || exec "$python" -m pytest -q -p no:cacheprovider "$folder/tests"
done
echo "skipped: install python3-numpy and python3-pytest"
exit 77
