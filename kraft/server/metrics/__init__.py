"""The metrics of a node for `/metrics`, under the names that existing dashboards query, gathered for each scrape.

Enters: the parts of a node that keep counters. Leaves: families of series. Deliberately absent: the counters
themselves, which are kept where things happen, and the text format (`kraft/common/metrics.py`)."""
