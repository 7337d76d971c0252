"""Client quotas (KIP-13, KIP-124, KIP-546, KIP-599, KIP-612): the limits of users, client ids and addresses."""
