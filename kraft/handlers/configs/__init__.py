"""The APIs that describe, alter and list configurations.

Enters: requests for resources of any type. Leaves: effective values with their sources, changes for the controller.
Deliberately absent: the table of keys (`kraft/common/config`).
"""
