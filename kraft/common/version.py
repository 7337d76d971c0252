"""The version of this distribution, as a constant that is cheap to read (a test compares it with pyproject.toml)."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.2.0"
