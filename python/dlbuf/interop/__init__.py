# SPDX-License-Identifier: MIT
"""The interop matrix: `python -m dlbuf.interop`."""
