"""Topics, partitions, replicas and leaders: one module per concern, all pure.

`leader_and_isr` is what every change of a broker's state goes through; `create_topics`, `delete_topics`,
`create_partitions`, `alter_partition`, `elect_leaders`, `reassignments` and `assign_directories` each answer the
request of that name.
"""
