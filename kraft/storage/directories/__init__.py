"""Log directories: identity, lock, clean-shutdown mark, logs, and logs moving between directories.

Input: configured paths. Output: opened logs, offset checkpoints, interrupted moves. Deliberately absent: the set of all
directories of a broker, and the placement of a new log (`log_manager.py`).
"""
