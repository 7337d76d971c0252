"""What is done to the cluster. A fault is begun and ended; ending it tells whether it bit, that is, whether the
kernel or the cluster shows that it happened.

`injection` says what a fault is and aims it by role; `network`, `process`, `disk`, `store` and `membership` hold the
faults; `plans` order them; `runner` carries them out.
"""
