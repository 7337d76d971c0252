"""Log directories: their identity, lock and marks, the logs in them, and logs on their way from one to another.

Enters: configured paths. Leaves: opened logs, offset checkpoints, what a crash left of a move. Deliberately absent: all
directories of a broker together, and which of them gets a log (`log_manager.py`).
"""
