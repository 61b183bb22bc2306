# SPDX-License-Identifier: MIT
"""Runs README's Python program, and compares its output with README's.

    tests/guest/lab -- env PYTHONPATH=SITE python3 tests/tool/readme.py
"""
import contextlib
import io
import re
import sys

with open("README.md") as f:
    program, expected = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", f.read(), re.S).groups()
out = io.StringIO()
with contextlib.redirect_stdout(out):
    exec(program)
print(out.getvalue(), end="")
if out.getvalue() != expected:
    sys.exit(f"README says:\n{expected}")
