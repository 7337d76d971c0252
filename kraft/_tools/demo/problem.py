"""The error of the demo."""

from __future__ import annotations


class DemoError(Exception):
    """Raised when the demo cannot continue. The message is for the user."""
