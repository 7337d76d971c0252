"""What a scrape tells of the process, its connections and what happened, under the names that dashboards query."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.rest_node import RunningNode, running_node

NAMES = """
kafka_controller_kafkacontroller_{activecontrollercount,activebrokercount,fencedbrokercount,offlinepartitionscount}
kafka_controller_kafkacontroller_{preferredreplicaimbalancecount,globaltopiccount,globalpartitioncount}
kafka_controller_controllerstats_uncleanleaderelections_total kafka_server_kafkaserver_brokerstate
kafka_server_replicamanager_{leadercount,partitioncount,underreplicatedpartitions,underminisrpartitioncount}
kafka_server_replicamanager_{atminisrpartitioncount,offlinereplicacount,isrshrinks_total,isrexpands_total}
kafka_cluster_partition_{underreplicated,underminisr,atminisr,replicascount}
kafka_server_replicafetchermanager_maxlag
kafka_server_brokertopicmetrics_{messagesin_total,bytesin_total,bytesout_total,bytesrejected_total}
kafka_server_brokertopicmetrics_{replicationbytesin_total,replicationbytesout_total,totalproducerequests_total}
kafka_server_brokertopicmetrics_{totalfetchrequests_total,failedproducerequests_total,failedfetchrequests_total}
kafka_network_requestmetrics_{requests_total,totaltimems,errors_total}
kafka_network_socketserver_networkprocessoravgidle_percent
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
kafka_server_socket_server_metrics_connection_count
kafka_server_raftmetrics_{current_state,current_leader,current_vote,current_epoch,high_watermark,log_end_offset}
kafka_server_raftmetrics_{commit_latency_avg,append_records_rate,fetch_records_rate,election_latency_avg}
kafka_server_raftmetrics_number_unknown_voter_connections
kafka_server_broker_metadata_metrics_{last_applied_record_offset,lag}
kafka_log_log_{size,numlogsegments,logstartoffset,logendoffset}
kafka_log_logmanager_{offlinelogdirectorycount,cordonedlogdirectorycount}
kafka_log_logmanager_{logdirectoryoffline,logdirectorycordoned}
kafka_brokers kafka_topic_partitions kafka_server_replicamanager_partitionswithlatetransactionscount
kafka_topic_partition_{current_offset,oldest_offset,leader,in_sync_replica,replicas,leader_is_preferred}
kafka_topic_partition_under_replicated_partition
kafka_consumergroup_{members,lag,lag_sum,lag_max,current_offset,lag_seconds}
kraft_consumergroup_{topics_left_out,left_out_lag,members_left_out}
kafka_server_brokertopicmetrics_{totalsharefetchrequests_total,failedsharefetchrequests_total}
kafka_server_brokertopicmetrics_{totalshareacknowledgementrequests_total,failedshareacknowledgementrequests_total}
kafka_server_group_coordinator_metrics_{share_group_count,share_group_rebalance_count}
kafka_server_group_coordinator_metrics_{streams_group_count,streams_group_rebalance_count}
kafka_server_sharegroupmetrics_recordacknowledgements_total kafka_server_share_coordinator_metrics_write_total
kafka_server_sharesessioncache_{sharesessionscount,sharepartitionscount}
kraft_request_duration_seconds kraft_fsync_seconds kraft_loop_step_seconds kraft_build_info
process_{cpu_seconds_total,resident_memory_bytes,open_fds,max_fds,start_time_seconds}
tls_certificate_expiry_timestamp_seconds kraft_disk_{free_bytes,total_bytes}
"""
"""What the dashboards and alerts of Kafka's exporters query. Left out are the times that a request waits in Kafka's
queues and threads: there are none here."""

Series = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("names")) as started:
        yield started


def scrape(node: RunningNode, query: str = "") -> Series:
    found: Series = {}
    for family in text_string_to_metric_families(httpx.get(f"{node.admin}/metrics{query}", timeout=30).text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_process_metrics_have_the_names_of_prometheus_clients(node: RunningNode) -> None:
    told = {name: series[()] for name, series in scrape(node).items() if name.startswith("process_")}
    assert time.time() - 600 < told.pop("process_start_time_seconds") <= time.time()
    assert 0 < told.pop("process_cpu_seconds_total") < 600
    assert 10 << 20 < told.pop("process_resident_memory_bytes") < 10 << 30
    assert 0 < told.pop("process_open_fds") < told.pop("process_max_fds")
    assert told == {}


def test_connections_members_and_events_are_counted_in_metrics(node: RunningNode) -> None:
    before = scrape(node)["kafka_server_socket_server_metrics_connection_count"]
    assert sorted(listener for ((_, listener),) in before) == ["CONTROLLER", "PLAINTEXT"]
    producer = Producer({"bootstrap.servers": node.kafka})
    producer.produce("t", b"x")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    while (record := consumer.poll(30)) is None or record.error():
        pass
    told = scrape(node)
    connections = told["kafka_server_socket_server_metrics_connection_count"]
    assert connections[("listener", "PLAINTEXT"),] > before[("listener", "PLAINTEXT"),]
    assert told["kafka_consumergroup_members"] == {(("consumergroup", "readers"),): 1}
    assert told["kafka_controller_controllerstats_uncleanleaderelections_total"] == {(): 0}
    assert told["kafka_server_replicamanager_offlinereplicacount"] == {(): 0}
    assert told["kafka_server_broker_metadata_metrics_lag"][()] >= 0
    assert told["kraft_events_total"]
    consumer.close()


def test_every_metric_name_is_in_a_scrape(node: RunningNode) -> None:
    text = httpx.get(f"{node.admin}/metrics", timeout=30).text
    told = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    wanted = []
    for word in NAMES.split():
        head, _, tails = word.partition("{")
        wanted += [head + tail for tail in tails.removesuffix("}").split(",")]
    assert [name for name in wanted if name not in told] == []


def test_requests_and_oversized_records_of_a_topic_are_counted(node: RunningNode) -> None:
    topic, prefix = (("topic", "counted"),), "kafka_server_brokertopicmetrics_"
    admin = AdminClient({"bootstrap.servers": node.kafka})
    admin.create_topics([NewTopic("counted", 1, 1, config={"max.message.bytes": "1000"})])["counted"].result(30)
    producer = Producer({"bootstrap.servers": node.kafka, "linger.ms": 0})
    codes = []
    for size in (10, 5000):
        producer.produce("counted", b"x" * size, on_delivery=lambda error, _: codes.append(error and error.name()))
        assert producer.flush(30) == 0
    assert codes == [None, "MSG_SIZE_TOO_LARGE"]
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "of counted", "enable.auto.commit": False})
    consumer.assign([TopicPartition("counted", 0, 0)])
    while (record := consumer.poll(30)) is None or record.error():
        pass
    consumer.close()
    told = scrape(node)
    assert told[prefix + "totalproducerequests_total"][topic] == 2
    assert told[prefix + "bytesrejected_total"][topic] > 5000
    assert told[prefix + "failedproducerequests_total"][topic] == 0
    assert told[prefix + "totalfetchrequests_total"][topic] > 0
    assert told[prefix + "failedfetchrequests_total"][topic] == 0
    quantiles = [
        value
        for labels, value in told["kafka_network_requestmetrics_totaltimems"].items()
        if ("request", "ApiVersions") in labels
    ]
    assert len(quantiles) == 5
    assert 0 <= told["kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"][()] <= 1
    assert told["kraft_loop_idle_seconds_total"][()] > 0


def test_a_groups_lag_is_exported_in_seconds(node: RunningNode) -> None:
    producer = Producer({"bootstrap.servers": node.kafka})
    producer.produce("late", b"first", partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "late readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("late", 0, 1)], asynchronous=False)
    labels = tuple(sorted({"consumergroup": "late readers", "topic": "late", "partition": "0"}.items()))
    assert scrape(node)["kafka_consumergroup_lag_seconds"][labels] == 0
    producer.produce("late", b"second", partition=0)
    assert producer.flush(30) == 0
    assert scrape(node)["kafka_consumergroup_lag_seconds"][labels] > 0
    consumer.close()


def test_metrics_by_topic_are_the_sums_of_those_by_partition(node: RunningNode) -> None:
    admin = AdminClient({"bootstrap.servers": node.kafka})
    admin.create_topics([NewTopic("summed", 3, 1)])["summed"].result(30)
    producer = Producer({"bootstrap.servers": node.kafka})
    for number in range(60):
        producer.produce("summed", b"x" * number, partition=number % 3)
    assert producer.flush(30) == 0
    each, summed = scrape(node, "?by=partition"), scrape(node, "?by=topic")
    assert each.keys() - summed.keys() == {
        "kafka_log_log_logstartoffset",
        "kafka_log_log_logendoffset",
        "kafka_topic_partition_leader",
    }
    for name in ("kafka_log_log_size", "kafka_topic_partition_current_offset", "kafka_cluster_partition_replicascount"):
        parts = [value for labels, value in each[name].items() if ("topic", "summed") in labels]
        assert (len(parts), sum(parts)) == (3, summed[name][("topic", "summed"),])
    assert summed["kafka_topic_partition_current_offset"][("topic", "summed"),] == 60
    assert scrape(node).keys() == each.keys()
    assert httpx.get(f"{node.admin}/metrics?by=broker").status_code == 400
