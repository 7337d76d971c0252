"""DeleteTopics: by name or by id, each topic at most once."""

from __future__ import annotations

from typing import Any, Final

from kraft.common.errors import ApiError
from kraft.common.ids import ZERO_UUID
from kraft.common.internal_topics import REMOTE_LOG_METADATA_TOPIC
from kraft.controller.controller_result import ControllerResult, check_operation_size, message_of_error
from kraft.controller.controller_view import ControllerView
from kraft.controller.controls.configuration_control import REMOTE_STORAGE
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.protocol.error_codes import ErrorCode, message_of
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

NAMED_MAX: Final = 3


def delete_topics(
    view: ControllerView, request: DeleteTopicsRequest, context: ControllerRequestContext
) -> ControllerResult[DeleteTopicsResponse]:
    """Return the records and the response for DeleteTopics. Raises ApiError if topic deletion is disabled."""
    if not view.settings.delete_topic_enable:
        if context.api_version < 3:
            raise ApiError(ErrorCode.INVALID_REQUEST, "This version does not support topic deletion.")
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, message_of(ErrorCode.TOPIC_DELETION_DISABLED))
    resolved, results = _resolve(view, request, context)
    records: list[Any] = []
    for topic_id, name in resolved.items():
        code, message = ErrorCode.NONE, None
        try:
            _check_is_not_needed(view, name)
            context.charge_mutations(len(view.image.topics.by_id[topic_id].partitions))
            records.append(RemoveTopicRecord(topic_id=topic_id))
        except ApiError as error:
            code, message = error.code, message_of_error(error)
        results.append(_result(name, topic_id, code, message))
    check_operation_size(records)
    return ControllerResult(records, DeleteTopicsResponse(responses=results), atomic=True)


def _check_is_not_needed(view: ControllerView, name: str) -> None:
    """Raises ApiError POLICY_VIOLATION for the remote log metadata topic while remote storage may contain segments."""
    if name != REMOTE_LOG_METADATA_TOPIC:
        return
    configs = view.image.configs
    tiered = sorted(each for each in view.image.topics.id_by_name if configs.topic(each).get(REMOTE_STORAGE) == "true")
    if tiered:
        named = ", ".join(tiered[:NAMED_MAX]) + f" and {len(tiered) - NAMED_MAX} more" * (len(tiered) > NAMED_MAX)
        lost = (
            f"those of {named} can be neither read nor deleted. Delete these topics first, or switch their tiering "
            "off (remote.storage.enable=false, remote.log.delete.on.disable=true), and set"
        )
    elif view.settings.remote_storage_enabled:
        lost = "those of deleted topics cannot be deleted. If none are left, set"
    else:
        return
    raise ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"{name} cannot be deleted: it alone records which segments are in remote storage. Without it {lost} "
        "remote.log.storage.system.enable=false on every node.",
    )


def _result(name: str | None, topic_id: bytes, code: int, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)


def _resolve(
    view: ControllerView, request: DeleteTopicsRequest, context: ControllerRequestContext
) -> tuple[dict[bytes, str], list[DeletableTopicResult]]:
    """Return (names of the topics to delete by id, results for those that cannot be deleted)."""
    results: list[DeletableTopicResult] = []
    names: dict[str, int] = dict.fromkeys(request.topic_names, 0)
    ids: dict[bytes, int] = {}
    for name in request.topic_names:
        names[name] += 1
    for topic in request.topics:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            results.append(
                _result(None, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
            )
        elif topic.name is None:
            ids[topic.topic_id] = ids.get(topic.topic_id, 0) + 1
        elif topic.topic_id == ZERO_UUID:
            names[topic.name] = names.get(topic.name, 0) + 1
        else:
            results.append(
                _result(
                    topic.name,
                    topic.topic_id,
                    ErrorCode.INVALID_REQUEST,
                    "You may not specify both topic name and topic id.",
                )
            )
    results += [
        _result(name, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in names.items()
        if count > 1
    ]
    results += [
        _result(None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        for topic_id, count in ids.items()
        if count > 1
    ]
    found: dict[bytes, str] = {}
    for topic_id, count in ids.items():
        known = view.image.topics.by_id.get(topic_id)
        if count == 1 and known is None:
            results.append(_result(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, message_of(ErrorCode.UNKNOWN_TOPIC_ID)))
        elif count == 1 and known is not None:
            found[topic_id] = known.name
    _refuse_ids(found, results, context)
    _resolve_names(view, names, ids, found, results, context)
    return found, results


def _refuse_ids(
    found: dict[bytes, str], results: list[DeletableTopicResult], context: ControllerRequestContext
) -> None:
    """Remove the topics that the caller may not delete. The result contains a topic's name only if the caller may
    describe it."""
    for topic_id, name in tuple(found.items()):
        if not context.may_delete(name):
            del found[topic_id]
            results.append(_refused(name if context.may_describe(name) else None, topic_id))


def _refused(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return _result(name, topic_id, code, message_of(code))


def _resolve_names(
    view: ControllerView,
    names: dict[str, int],
    ids: dict[bytes, int],
    found: dict[bytes, str],
    results: list[DeletableTopicResult],
    context: ControllerRequestContext,
) -> None:
    for name, count in names.items():
        if count > 1:
            continue
        topic_id = view.image.topics.id_by_name.get(name)
        if not context.may_describe(name):
            results.append(_refused(name, ZERO_UUID))
        elif topic_id is None:
            results.append(
                _result(
                    name,
                    ZERO_UUID,
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    message_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                )
            )
        elif not context.may_delete(name):
            results.append(_refused(name, ZERO_UUID))
        elif topic_id in ids:
            found.pop(topic_id, None)
            results.append(
                _result(
                    name,
                    topic_id,
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            )
        else:
            found[topic_id] = name
