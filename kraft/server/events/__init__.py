"""What happened in the cluster of late as this node saw it, and the accounts of logins, denials and waits for quotas.

Enters: new metadata images, refusals, failed logins, throttles. Leaves: events in a bounded journal and in the log, and
counters. Deliberately absent: alarms; whoever reads the journal draws conclusions.
"""
