"""Tests of kraft/server."""
