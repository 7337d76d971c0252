"""The identity and the rights of callers, and their changes: logins, ACLs, SCRAM credentials, delegation tokens,
envelopes.

Enters: requests, and what each handler declares that it needs. Leaves: refusals, changes for the controller, what the
audit is told of them. Deliberately absent: the rules' evaluation (`kraft/security/authorizer.py`).
"""
