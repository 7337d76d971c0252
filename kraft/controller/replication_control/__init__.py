"""Topics, partitions, replicas and leaders: one module per concern, all pure.

Every change of a broker's state goes through `leader_and_isr`. `create_topics`, `delete_topics`, `create_partitions`,
`alter_partition`, `elect_leaders`, `reassignments` and `assign_directories` each handle the request of that name.
"""
