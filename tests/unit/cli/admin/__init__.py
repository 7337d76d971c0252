"""Tests of the kraft command that need no node."""
