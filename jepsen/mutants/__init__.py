"""Defects that only real disks and sockets reveal, as patches. Each is applied to a copy of the product, and the run
that `bank` names must find it."""
