import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.testcontainers.junit.jupiter.Container;
import org.testcontainers.junit.jupiter.Testcontainers;

@Testcontainers
class OrdersTest {
    @Container
    static final KraftContainer kraft = new KraftContainer("kraft");

    @Test
    void anOrderComesBack() throws Exception {
        var strings = new StringSerializer();
        var servers = kraft.bootstrapServers();
        try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", servers), strings, strings)) {
            producer.send(new ProducerRecord<>("orders", "one coffee")).get();
        }
        var texts = new StringDeserializer();
        var settings = Map.<String, Object>of("bootstrap.servers", servers, "group.id", "billing", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, texts, texts)) {
            consumer.subscribe(List.of("orders"));
            assertEquals("one coffee", consumer.poll(Duration.ofSeconds(30)).iterator().next().value());
        }
    }
}
