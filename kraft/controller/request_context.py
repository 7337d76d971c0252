"""The context of a request that the controller needs: the caller, the API version, and the caller's permissions."""

from __future__ import annotations

from collections.abc import Callable


def _everything(topic: str) -> bool:
    return True


def _no_quota(mutations: int) -> None:
    return None


class ControllerRequestContext:
    """The caller of one request. The handlers create it after they have authorized the request. `api_version` is the
    version of the request."""

    __slots__ = (
        "api_version",
        "charge_mutations",
        "forwarded",
        "may_delete",
        "may_describe",
        "may_describe_configs",
        "principal",
    )

    def __init__(
        self,
        api_version: int,
        principal: str = "User:ANONYMOUS",
        *,
        forwarded: bool = False,
        may_describe_configs: Callable[[str], bool] = _everything,
        may_describe: Callable[[str], bool] = _everything,
        may_delete: Callable[[str], bool] = _everything,
        charge_mutations: Callable[[int], None] = _no_quota,
    ) -> None:
        """`may_describe_configs` returns whether the caller may see a new topic's configs. `may_describe` and
        `may_delete` return the caller's permissions on an existing topic.

        `charge_mutations` takes the number of partitions created or deleted. It raises
        ApiError(THROTTLING_QUOTA_EXCEEDED) if a quota forbids them (KIP-599).
        """
        self.api_version = api_version
        self.principal = principal
        self.forwarded = forwarded
        self.may_describe_configs = may_describe_configs
        self.may_describe = may_describe
        self.may_delete = may_delete
        self.charge_mutations = charge_mutations
