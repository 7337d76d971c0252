"""What Apache Kafka tells clients that lack rights: each API at both doors, to principals of each single right.

`principals.py` says who may do what, `broker_requests.py` and `controller_requests.py` what they ask, `matrix.py` asks.
`recorded.json` is what Apache Kafka 4.4.0 answered, masked as other vectors are. `python -m tests.vectors record`
writes it, too. Requests that would change what others are asked about are left out for those who have the right.
"""
