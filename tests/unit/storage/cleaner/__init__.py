"""Tests of the storage engine; `support` has what they share."""
