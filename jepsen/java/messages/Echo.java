import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Reads a message with Apache Kafka's own generated class and writes it back. A line in: name, version, hex; a line out: hex, JSON; or "error", reason. Tabs between. */
public class Echo {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.", "org.apache.kafka.common.metadata.", "org.apache.kafka.raft.generated.",
        "org.apache.kafka.coordinator.group.generated.", "org.apache.kafka.coordinator.transaction.generated.", "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
    };

    private static final Map<String, Class<?>> CLASSES = new HashMap<>();

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String candidate : new String[] {name + "Data", name}) {
            for (String prefix : PACKAGES) {
                try {
                    return Class.forName(prefix + candidate);
                } catch (ClassNotFoundException ignored) {
                    // The next package, then.
                }
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static String echo(String name, short version, byte[] bytes) throws Exception {
        if (!CLASSES.containsKey(name)) {
            CLASSES.put(name, find(name));
        }
        Class<?> found = CLASSES.get(name);
        ApiMessage message = (ApiMessage) found.getDeclaredConstructor().newInstance();
        ByteBuffer input = ByteBuffer.wrap(bytes);
        message.read(new ByteBufferAccessor(input), version);
        if (input.hasRemaining()) {
            return "error\t" + input.remaining() + " bytes left over";
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer output = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(output), cache, version);
        Method toJson = Class.forName(found.getName() + "JsonConverter").getMethod("write", found, short.class);
        JsonNode json = (JsonNode) toJson.invoke(null, message, version);
        return HexFormat.of().formatHex(output.array()) + "\t" + json;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            try {
                out.println(echo(parts[0], Short.parseShort(parts[1]), HexFormat.of().parseHex(parts[2])));
            } catch (Throwable problem) {
                out.println("error\t" + problem.toString().replace('\n', ' '));
            }
            out.flush();
        }
    }
}
