"""What moves a broker's tiered partitions between the tiers (KIP-405), and reads from the remote one.

Enters: partitions that lead or follow, a metadata view of their remote segments, reads that begin before the local
log. Leaves: copied and deleted segments, later local log starts, records. Deliberately absent: what is copied, expired
or found, which `kraft/remote` decides.
"""
