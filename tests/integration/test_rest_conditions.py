"""Conditional requests and misspelt parameters over the HTTP admin of a real node."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.integration.rest_node import running_node


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running_node(tmp_path_factory.mktemp("conditions")) as node:
        base = f"{node.admin}/v3/clusters/{node.cluster_id}"
        with httpx.Client(base_url=base, timeout=30, headers={"Content-Type": "application/json"}) as client:
            yield client


def grow(http: httpx.Client, topic: str, partitions: int, tag: str) -> httpx.Response:
    return http.patch(f"/topics/{topic}", json={"partitions_count": partitions}, headers={"If-Match": tag})


def test_a_change_with_if_match_succeeds_only_while_its_etag_is_current(http: httpx.Client) -> None:
    assert http.post("/topics", json={"topic_name": "grown", "partitions_count": 1}).status_code == 201
    tag = http.get("/topics/grown").headers["etag"]
    assert grow(http, "grown", 2, tag).status_code == 200
    refused = grow(http, "grown", 3, tag)
    now = http.get("/topics/grown")
    assert (refused.status_code, refused.headers["etag"]) == (412, now.headers["etag"]), refused.text
    assert "Read it again" in refused.json()["detail"]
    assert now.json()["partitions_count"] == 2, "nothing was changed"
    assert grow(http, "grown", 3, f'"other", W/{now.headers["etag"]}').status_code == 200
    assert grow(http, "grown", 4, "*").status_code == 200
    assert http.delete("/topics/grown", headers={"If-Match": tag}).status_code == 412
    tag = http.get("/topics/grown").headers["etag"]
    assert http.delete("/topics/grown", headers={"If-Match": tag}).status_code == 204
    assert grow(http, "grown", 5, "*").status_code == 412, "it is gone"


def test_of_two_changes_with_the_same_etag_only_the_first_succeeds(http: httpx.Client) -> None:
    http.post("/topics", json={"topic_name": "set", "partitions_count": 1}).raise_for_status()
    path = "/topics/set/configs/retention.ms"
    tag = http.get(path).headers["etag"]
    statuses = [http.put(path, json={"value": value}, headers={"If-Match": tag}).status_code for value in ("1", "2")]
    assert statuses == [204, 412]
    assert http.get(path).json()["value"] == "1"


def test_if_match_on_a_request_without_an_etag_is_rejected(http: httpx.Client) -> None:
    posted = http.post("/topics", json={"topic_name": "never"}, headers={"If-Match": "*"})
    assert posted.status_code == 400
    assert http.get("/topics/never").status_code == 404
    large = http.patch("/topics/set", content=b" " * (17 << 20), headers={"If-Match": "*"})
    assert large.status_code == 413


def test_an_unchanged_response_is_not_sent_again(http: httpx.Client) -> None:
    http.post("/topics", json={"topic_name": "known", "partitions_count": 1}).raise_for_status()
    tag = http.get("/topics/known").headers["etag"]
    again = http.get("/topics/known", headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert http.get("/topics/known", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("query", ["state=Ongoing", "pagesize=5", "page_size=5&page_sise=5"])
def test_an_unknown_query_parameter_is_rejected(http: httpx.Client, query: str) -> None:
    answer = http.get(f"/topics?{query}")
    assert answer.status_code == 400
    name = query.rpartition("&")[2].partition("=")[0]
    assert [error["pointer"] for error in answer.json()["errors"]] == [name]
    assert "page_size, page_token" in answer.json()["detail"]


def test_pages_accept_any_query_parameter(http: httpx.Client) -> None:
    origin = httpx.URL(http.base_url).copy_with(path="/ui/topic", query=b"topic=a&whatever=b")
    assert httpx.get(origin, timeout=30).status_code == 200
