"""Writing topics: batch building, the at-least-once writer, and the exactly-once writer with its staged batches."""
