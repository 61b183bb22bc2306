# SPDX-License-Identifier: MIT
"""The interop matrix: `python3 python/tests/interop`."""
