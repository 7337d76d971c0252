import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the words of one topic, exactly once, as a streams group: the words pass through a repartition topic, and the
 * counts are a store with a changelog. A line on standard input prints the tasks, and its end closes the application.
 *
 * java -cp JARS WordCount.java BOOTSTRAP APPLICATION SOURCE TARGET STATE_DIRECTORY [KEY=VALUE ...]
 */
public final class WordCount {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[4]);
        settings.put("group.protocol", "streams");
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "1");
        settings.put("commit.interval.ms", "200");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("producer.transaction.timeout.ms", "10000");
        for (String each : Arrays.copyOfRange(arguments, 5, arguments.length)) {
            settings.put(each.substring(0, each.indexOf('=')), each.substring(each.indexOf('=') + 1));
        }
        StreamsBuilder topology = new StreamsBuilder();
        topology.<String, String>stream(arguments[2])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
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
        for (int read = System.in.read(); read >= 0; read = System.in.read()) {
            if (read == '\n') {
                System.out.println("tasks " + streams.metadataForLocalThreads().stream()
                    .map(thread -> thread.activeTasks().stream().map(task -> task.taskId().toString()).sorted()
                        .collect(Collectors.joining(",")) + "/" + thread.standbyTasks().stream()
                        .map(task -> task.taskId().toString()).sorted().collect(Collectors.joining(",")))
                    .collect(Collectors.joining(" ")));
            }
        }
        System.exit(streams.close(Duration.ofSeconds(30)) ? 0 : 1);
    }
}
