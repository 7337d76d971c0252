"""Client quotas (KIP-13, KIP-124, KIP-546, KIP-599, KIP-612): how much a user, a client id or an address may take."""
