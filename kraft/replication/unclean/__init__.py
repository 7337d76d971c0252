"""What the replicas of this broker lost to unclean elections: noted before a log is truncated, and told to the
controller.

Enters: truncations of followers. Leaves: `kraft.unclean.loss.*` keys of topics
(`kraft.common.config.dynamic.loss_reports`). Deliberately absent: the election and its report, which are the
controller's (`kraft/controller/unclean`).
"""
