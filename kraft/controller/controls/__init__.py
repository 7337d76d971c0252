"""Decisions on ACLs, quotas, configs, delegation tokens, features, producer ids and SCRAM credentials."""
