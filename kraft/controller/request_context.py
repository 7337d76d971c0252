"""The caller of a request, the API version, and what the caller may see: the context that the controller needs."""

from __future__ import annotations

from collections.abc import Callable


def _everything(topic: str) -> bool:
    return True


def _no_quota(mutations: int) -> None:
    return None


class ControllerRequestContext:
    """Made per request by the handlers, which also did the authorization. `api_version` is the version the request
    came in."""

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
        """`may_describe_configs` tells whether the caller may see a new topic's configs, `may_describe` and
        `may_delete` what they may do with a topic that there is; `charge_mutations` takes a
        number of partitions made or deleted and raises ApiError(THROTTLING_QUOTA_EXCEEDED) when a quota forbids them
        (KIP-599)."""
        self.api_version = api_version
        self.principal = principal
        self.forwarded = forwarded
        self.may_describe_configs = may_describe_configs
        self.may_describe = may_describe
        self.may_delete = may_delete
        self.charge_mutations = charge_mutations
