"""The APIs of authentication and authorization: logins, ACLs, SCRAM credentials, delegation tokens, envelopes.

Enters: requests, and the permissions that each handler declares. Leaves: rejections, changes for the controller, audit
events. Deliberately absent: the evaluation of ACLs (`kraft/security/authorizer.py`).
"""
