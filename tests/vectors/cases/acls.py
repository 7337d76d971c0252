"""DescribeAcls, CreateAcls and DeleteAcls where no authorizer is configured."""

from typing import Any

from tests.vectors.case import CONTROLLER, Ask, case

TOPIC, CLUSTER, LITERAL, ANY, READ, ALLOW = 2, 4, 3, 1, 3, 3


def creation(**fields: Any) -> dict[str, Any]:
    return {
        "resource_type": TOPIC,
        "resource_name": "t",
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    } | fields


def wanted(**fields: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    } | fields


def asks(body: dict[str, Any]) -> tuple[Ask, Ask]:
    return Ask(body), Ask(body, listener=CONTROLLER)


CASES = (
    case("describe-acls-disabled", "DescribeAcls", *asks(wanted())),
    case("create-acls-disabled", "CreateAcls", *asks({"creations": [creation(), creation(resource_name="")]})),
    case("delete-acls-disabled", "DeleteAcls", *asks({"filters": [wanted(), wanted(principal_filter="User:bob")]})),
)
