import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the records of each key of one topic and writes each count to another, exactly once: the counts are a store
 * whose changelog is a topic, too. It ends in order when its standard input does.
 *
 * java -cp JARS Counting.java BOOTSTRAP APPLICATION SOURCE TARGET STATE_DIRECTORY
 */
public final class Counting {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[4]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "3");
        settings.put("commit.interval.ms", "1000");
        settings.put("producer.linger.ms", "5");  // Whoever dies leaves a transaction open with records in it.
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("main.consumer.session.timeout.ms", "6000");
        settings.put("main.consumer.heartbeat.interval.ms", "500");
        settings.put("producer.transaction.timeout.ms", "10000");
        StreamsBuilder topology = new StreamsBuilder();
        topology.<String, String>stream(arguments[2])
            .groupByKey()
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(arguments[3]);
        KafkaStreams streams = new KafkaStreams(topology.build(), settings);
        streams.setUncaughtExceptionHandler(problem -> StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.setStateListener((state, before) -> System.out.println(state));
        streams.start();
        while (System.in.read() >= 0) {
        }
        System.exit(streams.close(Duration.ofSeconds(30)) ? 0 : 1);
    }
}
