"""Spark imports every top-level module named `pyspark_*` on the first use of a Python data source and registers its
`DefaultSource`: so `format("kraft")` works without a call to `kraft.spark.register`. Tiny on purpose: that import
happens in a process of its own.
"""

from kraft.spark.data_source import KraftDataSource as DefaultSource

__all__ = ["DefaultSource"]
