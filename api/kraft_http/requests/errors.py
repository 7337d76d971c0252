"""Error responses: one body that serves RFC 9457 and the error format of REST v3.

`type, title, status, detail, instance` are the problem details; `error_code` and `message` are v3's; `kafka_error`,
`errors` and `hint` are kraft's own. `STATUS` below is the only mapping from Kafka's error codes to HTTP.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from kraft.admin.errors import Refused
from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode, is_retriable
from kraft_http.node_transport import UnencodableRequest
from kraft_http.requests.links import restore_slashes

PROBLEM_JSON: Final = "application/problem+json"
REQUEST_ID_CHARACTERS_MAX: Final = 128
CHALLENGE: Final = 'Basic realm="kraft"'


class KafkaErrorBody(BaseModel):
    name: str = Field(examples=["UNKNOWN_TOPIC_OR_PARTITION"])
    code: int = Field(examples=[3])
    retriable: bool = Field(description="Whether the same request may succeed later.")


class FieldProblem(BaseModel):
    pointer: str = Field(
        description="Position in the request: a JSON pointer into the body, or the name of the parameter.",
        examples=["/partitions_count"],
    )
    detail: str


class ErrorBody(BaseModel):
    """Problem details (RFC 9457) and, in `error_code` and `message`, the error of REST v3."""

    type: str = Field(description="URI of the kind of error.", examples=["about:blank"])
    title: str
    status: int
    detail: str
    instance: str = Field(description="Path of the request.")
    error_code: int = Field(examples=[40403])
    message: str
    kafka_error: KafkaErrorBody | None = None
    errors: list[FieldProblem] | None = None
    hint: str | None = Field(default=None, description="What to do.")
    request_id: str | None = Field(default=None, description="X-Request-ID of the request.")


class Answer(NamedTuple):
    """HTTP status and v3 error code for a Kafka error."""

    status: int
    error_code: int


NOT_FOUND_TOPIC: Final = Answer(404, 40403)
BAD_REQUEST: Final = Answer(400, 40002)
RETRIABLE: Final = Answer(503, 50003)
TIMED_OUT: Final = Answer(504, 50003)
FAILED: Final = Answer(500, 50002)

STATUS: Final[dict[int, Answer]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: NOT_FOUND_TOPIC,
    ErrorCode.UNKNOWN_TOPIC_ID: NOT_FOUND_TOPIC,
    ErrorCode.GROUP_ID_NOT_FOUND: Answer(404, 40405),
    ErrorCode.BROKER_ID_NOT_REGISTERED: Answer(404, 404),
    ErrorCode.SASL_AUTHENTICATION_FAILED: Answer(401, 40101),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Answer(403, 40301),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Answer(403, 40301),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Answer(403, 40301),
    ErrorCode.SECURITY_DISABLED: BAD_REQUEST,
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: BAD_REQUEST,
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: Answer(404, 404),
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: Answer(403, 40301),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: Answer(403, 40301),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: Answer(403, 40301),
    ErrorCode.DELEGATION_TOKEN_EXPIRED: BAD_REQUEST,
    ErrorCode.INVALID_PRINCIPAL_TYPE: BAD_REQUEST,
    ErrorCode.UNACCEPTABLE_CREDENTIAL: BAD_REQUEST,
    ErrorCode.RESOURCE_NOT_FOUND: Answer(404, 404),
    ErrorCode.TOPIC_ALREADY_EXISTS: BAD_REQUEST,
    ErrorCode.INVALID_TOPIC_EXCEPTION: BAD_REQUEST,
    ErrorCode.INVALID_PARTITIONS: BAD_REQUEST,
    ErrorCode.INVALID_REPLICATION_FACTOR: BAD_REQUEST,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: BAD_REQUEST,
    ErrorCode.INVALID_CONFIG: BAD_REQUEST,
    ErrorCode.INVALID_REQUEST: BAD_REQUEST,
    ErrorCode.INVALID_GROUP_ID: BAD_REQUEST,
    ErrorCode.INVALID_TIMESTAMP: BAD_REQUEST,
    ErrorCode.INVALID_RECORD: BAD_REQUEST,
    ErrorCode.POLICY_VIOLATION: BAD_REQUEST,
    ErrorCode.OFFSET_OUT_OF_RANGE: BAD_REQUEST,
    ErrorCode.TOPIC_DELETION_DISABLED: BAD_REQUEST,
    ErrorCode.MESSAGE_TOO_LARGE: Answer(413, 413),
    ErrorCode.RECORD_LIST_TOO_LARGE: Answer(413, 413),
    ErrorCode.NON_EMPTY_GROUP: Answer(409, 409),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: Answer(409, 409),
    ErrorCode.REASSIGNMENT_IN_PROGRESS: Answer(409, 409),
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: Answer(404, 404),
    ErrorCode.VOTER_NOT_FOUND: Answer(404, 404),
    ErrorCode.DUPLICATE_VOTER: Answer(409, 409),
    ErrorCode.INVALID_VOTER_KEY: BAD_REQUEST,
    ErrorCode.INVALID_UPDATE_VERSION: BAD_REQUEST,
    ErrorCode.REQUEST_TIMED_OUT: TIMED_OUT,
    ErrorCode.UNSUPPORTED_VERSION: Answer(501, 501),
    ErrorCode.BROKER_NOT_AVAILABLE: RETRIABLE,
}

_HINTS: Final[dict[int, str]] = {
    ErrorCode.SECURITY_DISABLED: "Entries need an authorizer (authorizer.class.name) on every node.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Tokens need delegation.token.secret.key on every node.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "Only who has logged in may ask: set kraft.admin.authentication, and ask a node with the broker role."
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "Fewer replicas are in sync than min.insync.replicas asks for: see /v1/cluster/health."
    ),
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader right now: see /v1/cluster/health, then try again.",
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "The replication factor must not exceed the number of live brokers: see /v1/cluster/health."
    ),
    ErrorCode.NON_EMPTY_GROUP: "Stop the group's consumers first.",
    ErrorCode.REQUEST_TIMED_OUT: "The outcome is not known: look before you try again.",
    ErrorCode.NETWORK_EXCEPTION: "The outcome is not known: look before you try again.",
}

_TITLES: Final = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    409: "Conflict",
    412: "Precondition Failed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


class ApiProblem(Exception):
    """An error that this API itself finds, with its HTTP status and v3 error code."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        error_code: int | None = None,
        errors: list[FieldProblem] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.error_code = status if error_code is None else error_code
        self.errors = errors
        self.hint = hint


def not_found(what: str) -> ApiProblem:
    return ApiProblem(404, f"{what} does not exist.")


def answer_for(problem: Refused) -> Answer:
    """The HTTP status and v3 error code of a Kafka error."""
    known = STATUS.get(problem.code)
    if known is not None:
        return known
    return RETRIABLE if is_retriable(problem.code) else FAILED


def install(app: FastAPI) -> None:
    """Register handlers so that every error of `app` has this format."""
    app.add_exception_handler(Refused, _kafka_problem)
    app.add_exception_handler(ApiError, _refused)
    app.add_exception_handler(ApiProblem, _api_problem)
    app.add_exception_handler(UnencodableRequest, _unencodable)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(ConnectionError, _stopped)


async def _kafka_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    status, error_code = answer_for(error)
    # Kafka lets clients retry for a topic that is missing: their metadata may be old. This answer is from the image.
    retriable = status == RETRIABLE.status or (is_retriable(error.code) and status != 404)
    kafka_error = KafkaErrorBody(name=error.name, code=error.code, retriable=retriable)
    return error_response(
        request, status, error.sentence, error_code, kafka_error=kafka_error, hint=_HINTS.get(error.code)
    )


async def _refused(request: Request, error: Exception) -> JSONResponse:
    """Respond to an error of `AdminPort` itself: the caller lacks the permission, or its login has expired."""
    assert isinstance(error, ApiError)
    return await _kafka_problem(request, Refused(error.code, "", error.message))


async def _api_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiProblem)
    return error_response(request, error.status, error.detail, error.error_code, errors=error.errors, hint=error.hint)


async def _unencodable(request: Request, error: Exception) -> JSONResponse:
    return error_response(request, 400, "The request holds a value that Kafka's protocol cannot carry.", 400)


async def _stopped(request: Request, error: Exception) -> JSONResponse:
    """Respond that the node has stopped or is stopping."""
    return error_response(request, RETRIABLE.status, f"No answer: {error}.", RETRIABLE.error_code)


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [_field_problem(detail) for detail in error.errors()]
    summary = "; ".join(f"{field.pointer}: {field.detail}" for field in errors[:3])
    return error_response(request, 400, f"The request is not valid: {summary}", 400, errors=errors)


def _field_problem(detail: dict[str, Any]) -> FieldProblem:
    place, *path = [str(part) for part in detail["loc"]]
    pointer = (
        "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)
        if place == "body"
        else ".".join(path) or place
    )
    return FieldProblem(pointer=pointer, detail=detail["msg"])


async def _http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = str(error.detail)
    if error.status_code == 404 and detail == "Not Found":
        detail = "There is nothing at this address. /docs shows what there is."
    response = error_response(request, error.status_code, detail, error.status_code)
    response.headers.update(error.headers or {})
    return response


def error_response(
    request: Request,
    status: int,
    detail: str,
    error_code: int,
    *,
    kafka_error: KafkaErrorBody | None = None,
    errors: list[FieldProblem] | None = None,
    hint: str | None = None,
) -> JSONResponse:
    """The error response in the common format."""
    path = request.scope["path"]
    body = ErrorBody(
        type="about:blank",
        title=_TITLES.get(status, "Error"),
        status=status,
        detail=detail,
        instance=request.scope.get("root_path", "") + path,
        error_code=error_code,
        message=detail,
        kafka_error=kafka_error,
        errors=errors,
        hint=hint,
        request_id=request_id_of(request),
    )
    wants_json = path.startswith("/v3") and PROBLEM_JSON not in request.headers.get("accept", "")
    headers = {"Retry-After": "1"} if status == 503 else {"WWW-Authenticate": CHALLENGE} if status == 401 else None
    content = body.model_dump(exclude_none=True)
    return JSONResponse(
        _readable(content), status, headers, media_type="application/json" if wants_json else PROBLEM_JSON
    )


def request_id_of(request: Request) -> str | None:
    """The client's X-Request-Id, or None if it is too long or not printable ASCII."""
    request_id = request.headers.get("x-request-id", "")
    return (
        request_id
        if 0 < len(request_id) <= REQUEST_ID_CHARACTERS_MAX and request_id.isascii() and request_id.isprintable()
        else None
    )


def _readable(content: dict[str, Any]) -> dict[str, Any]:
    """Make the texts of an error encodable: they may quote the request, and JSON strings can hold what UTF-8 cannot
    encode. Also restore encoded slashes of the path."""
    return {
        key: restore_slashes(value.encode("utf-8", "replace").decode()) if isinstance(value, str) else value
        for key, value in content.items()
    }


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of an operation, for OpenAPI. `kraft_http.openapi` adds those that every operation may
    return."""
    return {status: {"model": ErrorBody, "description": _TITLES[status]} for status in statuses}
