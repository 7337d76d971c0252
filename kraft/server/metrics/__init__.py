"""What `/metrics` tells of a node, under the names that existing dashboards query, gathered at a scrape.

Enters: the parts of a node that count. Leaves: families of series. Deliberately absent: the counters themselves, which
are where things happen, and the text format (`kraft/common/metrics.py`).
"""
