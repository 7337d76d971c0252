"""Whether the cluster and each node are healthy, and the findings that say why not."""
