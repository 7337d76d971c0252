"""Why the demo cannot go on."""

from __future__ import annotations


class DemoError(Exception):
    """The message is for a person."""
