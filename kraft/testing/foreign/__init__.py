"""librdkafka in a process of its own, for tests in which nodes die under it.

A foreign client may hang in C, where neither an exception nor a signal reaches the thread that waits. Here it lives in
a child process (`librdkafka_program.py`), which takes commands as lines of JSON and answers with lines. Each command
has a deadline (`process.py`). A process that misses it is dumped, killed and counted, and the caller gets `Hung`: it
goes on with a new client, as an operator would. `librdkafka.py` has the classes that callers use, with the methods of
`confluent_kafka`; `values.py` is the one place that knows how a value is written; `stacks.py` dumps a process.

Deliberately absent: clients that cannot hang (aiokafka and kafka-python wait in Python, where a timeout ends them).
"""
