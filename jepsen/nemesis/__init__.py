"""Faults on the cluster. Each fault is begun and ended, and its end tells whether it had an effect, as seen by the
kernel or the cluster.

`injection` defines a fault and aims it by role. `network`, `process`, `disk`, `store` and `membership` have the faults.
`plans` order them, and `runner` carries them out.
"""
