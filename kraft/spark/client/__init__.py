"""The blocking wire client of Spark's processes, its security, and the sockets and memory of Python workers."""
