"""librdkafka in a process of its own, for tests that kill nodes under it.

A foreign client may hang in C, where neither an exception nor a signal reaches the waiting thread. Here it runs in a
child process (`librdkafka_program.py`), which reads commands as lines of JSON and writes lines in reply. Each command
has a deadline (`process.py`). If the child misses it, its stacks are dumped, it is killed and counted, and the caller
gets `Hung`; the caller continues with a new client, as an operator would. `librdkafka.py` has the classes for callers,
with the methods of `confluent_kafka`. `values.py` alone defines how values are written. `stacks.py` dumps the stacks of
a process.

Deliberately absent: clients that cannot hang (aiokafka and kafka-python wait in Python, where a timeout ends them).
"""
