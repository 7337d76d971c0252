import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * An application that is a streams group and processes exactly once. The topology `count` counts the words of a topic:
 * the words pass through a repartition topic, and the counts are a store with a changelog. The topology `join` appends
 * to each value of its first source the value that the same key has in its second, which is a table with a changelog.
 * A line on standard input prints the tasks, and its end closes the application.
 *
 * java -cp JARS StreamsGroup.java count|join BOOTSTRAP APPLICATION SOURCE[,TABLE] TARGET STATE_DIRECTORY
 *     [KEY=VALUE ...]
 */
public final class StreamsGroup {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        settings.put("application.id", arguments[2]);
        settings.put("state.dir", arguments[5]);
        settings.put("group.protocol", "streams");
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "1");
        settings.put("commit.interval.ms", "200");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("producer.transaction.timeout.ms", "10000");
        for (String each : Arrays.copyOfRange(arguments, 6, arguments.length)) {
            settings.put(each.substring(0, each.indexOf('=')), each.substring(each.indexOf('=') + 1));
        }
        StreamsBuilder topology = new StreamsBuilder();
        String[] sources = arguments[3].split(",");
        switch (arguments[0]) {
            case "count" -> count(topology, sources[0], arguments[4]);
            case "join" -> join(topology, sources[0], sources[1], arguments[4]);
            default -> throw new IllegalArgumentException("no topology " + arguments[0] + ": name count or join");
        }
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

    private static void count(StreamsBuilder topology, String source, String target) {
        topology.<String, String>stream(source)
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(target);
    }

    private static void join(StreamsBuilder topology, String source, String tableSource, String target) {
        KTable<String, String> table = topology.table(tableSource,
            Materialized.<String, String>as(Stores.inMemoryKeyValueStore("table")));
        topology.<String, String>stream(source)
            .join(table, (value, found) -> value + " " + found)
            .to(target);
    }
}
