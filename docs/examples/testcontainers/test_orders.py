from confluent_kafka import Consumer, Producer
from kraft_container import KraftContainer


def test_an_order_comes_back():
    with KraftContainer() as kraft:
        producer = Producer({"bootstrap.servers": kraft.bootstrap})
        producer.produce("orders", "one coffee")
        assert producer.flush(30) == 0
        consumer = Consumer(
            {"bootstrap.servers": kraft.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        assert consumer.poll(30).value() == b"one coffee"
        consumer.close()
