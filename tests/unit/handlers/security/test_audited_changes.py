"""What a request changed is told, what was refused or only checked is not, and no secret is."""

from __future__ import annotations

import json
import math

import pytest

from kraft.common.config.resource_type import ResourceType
from kraft.handlers.security.audited_changes import (
    CONFIG,
    CREDENTIAL,
    QUOTA,
    config_changes,
    credential_changes,
    quota_changes,
)
from kraft.protocol.messages import (
    alter_client_quotas_request,
    alter_client_quotas_response,
    alter_configs_request,
    alter_configs_response,
    alter_user_scram_credentials_request,
    alter_user_scram_credentials_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
)

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER


def incremental(kind: int, name: str, *changes: tuple[str, int, str | None]) -> object:
    given = [
        incremental_alter_configs_request.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    return incremental_alter_configs_request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)


def answered(kind: int, name: str, code: int = 0) -> object:
    return incremental_alter_configs_response.AlterConfigsResourceResponse(
        resource_type=kind, resource_name=name, error_code=code
    )


def test_each_changed_config_key_is_audited_without_secrets() -> None:
    request = incremental_alter_configs_request.IncrementalAlterConfigsRequest(
        resources=[
            incremental(TOPIC, "t", ("retention.ms", 0, "7"), ("cleanup.policy", 1, None)),
            incremental(TOPIC, "refused", ("retention.ms", 0, "7")),
            incremental(BROKER, "1", ("ssl.keystore.password", 0, "s3cret"), ("log.cleaner.threads", 0, "2")),
            incremental(BROKER, "", ("listener.name.a.plain.sasl.jaas.config", 2, "s3cret")),
        ]
    )
    response = incremental_alter_configs_response.IncrementalAlterConfigsResponse(
        responses=[answered(TOPIC, "t"), answered(TOPIC, "refused", 40), answered(BROKER, "1"), answered(BROKER, "")]
    )
    changes = list(config_changes(request, response))
    assert {change.kind for change in changes} == {CONFIG}
    assert [tuple(change.fields.values()) for change in changes] == [
        ("topic", "t", "retention.ms", "set", "7"),
        ("topic", "t", "cleanup.policy", "delete", None),
        ("broker", "1", "ssl.keystore.password", "set", None),
        ("broker", "1", "log.cleaner.threads", "set", "2"),
        ("broker", "", "listener.name.a.plain.sasl.jaas.config", "append", None),
    ]
    request.validate_only = True
    assert list(config_changes(request, response)) == []


def test_a_replaced_config_is_audited_even_when_no_key_remains() -> None:
    resources = [
        alter_configs_request.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name="t",
            configs=[alter_configs_request.AlterableConfig(name="retention.ms", value="7")],
        ),
        alter_configs_request.AlterConfigsResource(resource_type=TOPIC, resource_name="emptied"),
    ]
    changes = config_changes(
        alter_configs_request.AlterConfigsRequest(resources=resources), alter_configs_response.AlterConfigsResponse()
    )
    assert [tuple(change.fields.values()) for change in changes] == [
        ("topic", "t", "retention.ms", "replace", "7"),
        ("topic", "emptied", "", "replace", None),
    ]


@pytest.mark.parametrize("code", [0, 42])
def test_quota_changes_are_audited_by_entity(code: int) -> None:
    asked = alter_client_quotas_request
    entry = asked.EntryData(
        entity=[
            asked.EntityData(entity_type="user", entity_name="alice"),
            asked.EntityData(entity_type="client-id", entity_name=None),
        ],
        ops=[
            asked.OpData(key="producer_byte_rate", value=100.0, remove=False),
            asked.OpData(key="consumer_byte_rate", value=0.0, remove=True),
        ],
    )
    response = alter_client_quotas_response.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas_response.EntryData(
                error_code=code,
                entity=[
                    alter_client_quotas_response.EntityData(entity_type="client-id", entity_name=None),
                    alter_client_quotas_response.EntityData(entity_type="user", entity_name="alice"),
                ],
            )
        ]
    )
    changes = list(quota_changes(asked.AlterClientQuotasRequest(entries=[entry]), response))
    told = [tuple(change.fields.values()) for change in changes]
    entity = "user alice, client-id (default)"
    assert told == (
        [] if code else [(entity, "producer_byte_rate", "set", 100.0), (entity, "consumer_byte_rate", "delete", None)]
    )
    assert {change.kind for change in changes} <= {QUOTA}


def test_an_unlimited_quota_is_audited_as_a_json_number() -> None:
    asked, told = alter_client_quotas_request, alter_client_quotas_response
    entry = asked.EntryData(ops=[asked.OpData(key="request_percentage", value=math.inf, remove=False)])
    response = told.AlterClientQuotasResponse(entries=[told.EntryData()])
    [change] = quota_changes(asked.AlterClientQuotasRequest(entries=[entry]), response)
    assert "Infinity" not in json.dumps(change.fields, allow_nan=False)


def test_a_quota_entity_named_twice_does_not_shift_the_results_of_others() -> None:
    asked, told = alter_client_quotas_request, alter_client_quotas_response

    def entry(user: str) -> asked.EntryData:
        ops = [asked.OpData(key="producer_byte_rate", value=1.0, remove=False)]
        return asked.EntryData(entity=[asked.EntityData(entity_type="user", entity_name=user)], ops=ops)

    def answer(user: str, code: int) -> told.EntryData:
        return told.EntryData(error_code=code, entity=[told.EntityData(entity_type="user", entity_name=user)])

    request = asked.AlterClientQuotasRequest(entries=[entry("alice"), entry("alice"), entry("bob")])
    response = told.AlterClientQuotasResponse(entries=[answer("alice", 42), answer("bob", 0)])
    assert [change.fields["entity"] for change in quota_changes(request, response)] == ["user bob"]


def test_credential_changes_are_audited_without_the_secret() -> None:
    asked, told = alter_user_scram_credentials_request, alter_user_scram_credentials_response
    request = asked.AlterUserScramCredentialsRequest(
        upsertions=[asked.ScramCredentialUpsertion(name="alice", mechanism=2, iterations=4096, salted_password=b"s3")],
        deletions=[
            asked.ScramCredentialDeletion(name="bob", mechanism=1),
            asked.ScramCredentialDeletion(name="nobody", mechanism=1),
        ],
    )
    results = [
        told.AlterUserScramCredentialsResult(user=user, error_code=code)
        for user, code in (("alice", 0), ("bob", 0), ("nobody", 91))
    ]
    changes = list(credential_changes(request, told.AlterUserScramCredentialsResponse(results=results)))
    assert [tuple(change.fields.values()) for change in changes] == [
        ("alice", "SCRAM-SHA-512", "set"),
        ("bob", "SCRAM-SHA-256", "delete"),
    ]
    assert {change.kind for change in changes} == {CREDENTIAL}
