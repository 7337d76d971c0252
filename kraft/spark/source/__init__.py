"""Reading topics: options, planning by offset ranges, and the readers of batches and streams."""
