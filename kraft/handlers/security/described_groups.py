"""What ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe share: the caller's permissions, and the
response to a request that failed as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from kraft.handlers.security.authorized_operations import access_of, operations_on
from kraft.protocol.error_codes import ErrorCode
from kraft.security.acls import Operation, ResourceKind
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.registry import RequestContext
    from kraft.handlers.services import BrokerServices

HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."


async def authorize_described(
    request: Any,
    groups: list[Any],
    context: RequestContext,
    broker: BrokerServices,
    topics_of: Callable[[Any], Iterable[str]],
    hidden: str = HIDDEN,
) -> None:
    """Add the authorized operations (KIP-430) to each of the `groups` of a response, if the request wants them. A group
    with a topic that the caller may not describe gets an error with the message `hidden` instead. `topics_of` returns
    a group's topics."""
    access = access_of(context, broker)
    turn = Turn()
    for index, group in enumerate(groups):
        if turn.is_over(1 + len(group.members)):
            await turn.next()
        if group.error_code != ErrorCode.NONE:
            continue
        if request.include_authorized_operations:
            group.authorized_operations = operations_on(ResourceKind.GROUP, group.group_id, access)
        if access is not None and not all(
            access.allows(Operation.DESCRIBE, ResourceKind.TOPIC, name) for name in topics_of(group)
        ):
            groups[index] = type(group)(
                group_id=group.group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=hidden
            )


def describe_failed(response_class: type[Any], group_class: type[Any]) -> Callable[[Any, int, str | None], Steps[Any]]:
    """The error function of an API whose response has a `group_class` for each requested group."""

    def failed(request: Any, code: int, message: str | None) -> Steps[Any]:
        response = response_class()
        for group_id in request.group_ids:
            response.groups.append(group_class(group_id=group_id, error_code=code, error_message=message))
            yield None
        return response

    return failed
