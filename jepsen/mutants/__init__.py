"""Defects of which only real disks and sockets tell, as patches; each is applied to a copy of the product and has to
be found by the run that `bank` names."""
