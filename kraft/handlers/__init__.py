"""The handlers of the Kafka APIs. One module per API: its key, versions and listeners beside the function that serves
it. `registry` is the table from which ApiVersions, docs and tests are derived. The APIs of one feature share a folder.

Enters: request frames from kraft/network. Leaves: replies. Deliberately absent: state (replicas, coordinators,
controller and image own it) and sockets.
"""
