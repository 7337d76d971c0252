import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporterProvider;
import org.apache.kafka.shaded.com.google.protobuf.InvalidProtocolBufferException;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;

/** A receiver of clients' metrics: with one in metric.reporters Apache Kafka serves GetTelemetrySubscriptions and PushTelemetry. It reads each push as OTLP and keeps nothing; a push that is not MetricsData fails. */
public class Receiver implements MetricsReporter, ClientTelemetryExporterProvider {
    @Override
    public ClientTelemetryExporter clientTelemetryExporter() {
        return (context, payload) -> {
            try {
                MetricsData.parseFrom(payload.data());
            } catch (InvalidProtocolBufferException notMetrics) {
                throw new IllegalArgumentException(notMetrics);
            }
        };
    }

    @Override
    public void configure(Map<String, ?> settings) {
        // There is nothing to set.
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
        // The broker's own metrics are not wanted.
    }

    @Override
    public void metricChange(KafkaMetric metric) {
        // As above.
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
        // As above.
    }

    @Override
    public void close() {
        // Nothing is open.
    }
}
