"""Moves a broker's tiered partitions between the tiers (KIP-405), and reads from the remote tier.

Enters: partitions that lead or follow, a metadata view of their remote segments, reads that start before the local log.
Leaves: copied and deleted segments, higher local log start offsets, records. Deliberately absent: which segments to
copy, expire or read, which `kraft/remote` decides.
"""
