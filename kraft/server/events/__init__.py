"""Recent events of the cluster as this node saw them, and audits of logins, denials and throttling.

Enters: new metadata images, denials, failed logins, throttles. Leaves: events in a bounded journal and in the log, and
counters. Deliberately absent: alarms; readers of the journal draw conclusions.
"""
