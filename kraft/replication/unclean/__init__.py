"""Records that replicas of this broker lost to unclean elections. A loss is written to disk before the log is
truncated, and reported to the controller.

Enters: truncations of followers. Leaves: `kraft.unclean.loss.*` keys of topics
(`kraft.common.config.dynamic.loss_reports`). Deliberately absent: the election and its report, which are the
controller's (`kraft/controller/unclean`).
"""
