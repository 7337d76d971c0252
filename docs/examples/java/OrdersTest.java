import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.BufferedReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class OrdersTest {
    static Process cluster;
    static String bootstrap;

    @BeforeAll
    static void start() throws Exception {
        cluster = new ProcessBuilder("kraft", "cluster", "start", "--ephemeral", "--json", "-n", "1")
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader output = cluster.inputReader();
        bootstrap = output.readLine().replaceAll(".*\"bootstrap\": ?\"([^\"]*)\".*", "$1");
    }

    @AfterAll
    static void stop() throws Exception {
        cluster.getOutputStream().close();
        cluster.waitFor();
    }

    @Test
    void anOrderComesBack() throws Exception {
        var strings = new StringSerializer();
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), strings, strings)) {
            producer.send(new ProducerRecord<>("orders", "one coffee")).get();
        }
        var texts = new StringDeserializer();
        var settings = Map.<String, Object>of("bootstrap.servers", bootstrap, "group.id", "billing", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, texts, texts)) {
            consumer.subscribe(List.of("orders"));
            var records = consumer.poll(Duration.ofSeconds(30));
            assertEquals("one coffee", records.iterator().next().value());
        }
    }
}
