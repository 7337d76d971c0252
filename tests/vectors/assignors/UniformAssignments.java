// Records what Apache Kafka's assignor `uniform` makes of groups (uniform.txt, read by tests/unit/coordinator/consumer/
// test_uniform.py). Needs the jars of Kafka 4.3.1:
//
//   java -cp "$JARS/*" UniformAssignments.java < uniform.txt > new && mv new uniform.txt
//
// A line is a group and what comes of it: COUNTS|MEMBER|MEMBER...<tab>LOADS<tab>KEPT. COUNTS are the numbers of
// partitions of the topics 0, 1, ...; a MEMBER is the topics that it subscribes to, a semicolon, and the partitions that
// it had (topic-partition). LOADS are the sorted numbers of partitions of the members, KEPT is how many stay in place.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class UniformAssignments {
    record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        public Set<String> racksForPartition(Uuid topic, int partition) {
            throw new AssertionError("the assignor looks at racks");
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String group = line.split("\t")[0];
            System.out.println(group + "\t" + outcome(group.split("\\|", -1)));
        }
    }

    static Uuid topic(String number) {
        return new Uuid(1000 + Integer.parseInt(number), 7);
    }

    static String outcome(String[] fields) {
        Map<Uuid, Integer> counts = new HashMap<>();
        String[] numbers = fields[0].split(",");
        for (int i = 0; i < numbers.length; i++) {
            counts.put(topic("" + i), Integer.parseInt(numbers[i]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<String, Map<Uuid, Set<Integer>>> had = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int i = 1; i < fields.length; i++) {
            String member = String.format("m%02d", i - 1);
            String[] parts = fields[i].split(";", -1);
            Set<Uuid> topics = new HashSet<>();
            for (String number : parts[0].split(",")) {
                topics.add(topic(number));
            }
            Map<Uuid, Set<Integer>> own = new HashMap<>();
            for (String place : parts[1].isEmpty() ? new String[0] : parts[1].split(",")) {
                Uuid of = topic(place.split("-")[0]);
                int partition = Integer.parseInt(place.split("-")[1]);
                own.computeIfAbsent(of, key -> new HashSet<>()).add(partition);
                owners.computeIfAbsent(of, key -> new HashMap<>()).put(partition, member);
            }
            had.put(member, own);
            members.put(member, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), topics, new Assignment(own)));
        }
        GroupAssignment assigned = new UniformAssignor().assign(
            new GroupSpecImpl(members, SubscriptionType.HETEROGENEOUS, owners), new Topics(counts));
        List<Integer> loads = new ArrayList<>();
        int kept = 0;
        for (String member : members.keySet()) {
            int load = 0;
            for (var entry : assigned.members().get(member).partitions().entrySet()) {
                load += entry.getValue().size();
                Set<Integer> before = new HashSet<>(had.get(member).getOrDefault(entry.getKey(), Set.of()));
                before.retainAll(entry.getValue());
                kept += before.size();
            }
            loads.add(load);
        }
        Collections.sort(loads);
        return loads.stream().map(String::valueOf).collect(Collectors.joining(",")) + "\t" + kept;
    }
}
