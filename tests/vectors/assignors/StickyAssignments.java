import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Answers each line, a streams group, with what Apache Kafka's assignor `sticky` makes of it. A line is
 * STANDBYS;SUBTOPOLOGIES;MEMBERS. A subtopology is NAME:TASKS:STATEFUL, with commas between. A member is
 * ID|PROCESS|ACTIVE|STANDBY|OFFSETS, with spaces between; a task is SUBTOPOLOGY_PARTITION, an offset
 * SUBTOPOLOGY_PARTITION_OFFSET, with commas between. The answer has ID|ACTIVE|STANDBY for each member.
 */
public final class StickyAssignments {
    private record Subtopology(int tasks, boolean isStateful) {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(";", -1)));
        }
    }

    private static String answer(String[] parts) {
        Map<String, Subtopology> subtopologies = new TreeMap<>();
        for (String each : parts[1].split(",")) {
            String[] fields = each.split(":");
            subtopologies.put(fields[0], new Subtopology(Integer.parseInt(fields[1]), fields[2].equals("1")));
        }
        Map<String, MemberMetadataAndStateImpl> members = new TreeMap<>();
        for (String each : parts[2].split(" ")) {
            String[] fields = each.split("\\|", -1);
            members.put(fields[0], new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), fields[1],
                Map.of(), tasks(fields[2]), tasks(fields[3]), Map.of(), offsets(fields[4]), Map.of()));
        }
        TopologyDescriber topology = new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return List.copyOf(subtopologies.keySet());
            }

            @Override
            public int maxNumInputPartitions(String name) {
                return subtopologies.get(name).tasks();
            }

            @Override
            public boolean isStateful(String name) {
                return subtopologies.get(name).isStateful();
            }
        };
        AssignmentConfigsImpl configs = new AssignmentConfigsImpl(Integer.parseInt(parts[0]), List.of());
        GroupAssignment assigned = new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), topology);
        StringBuilder answer = new StringBuilder();
        for (String id : members.keySet()) {
            MemberAssignment member = assigned.members().get(id);
            answer.append(answer.isEmpty() ? "" : " ").append(id).append('|').append(shown(member.activeTasks()))
                .append('|').append(shown(member.standbyTasks()));
        }
        return answer.toString();
    }

    private static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        Arrays.stream(text.split(",")).filter(each -> !each.isEmpty()).map(each -> each.split("_"))
            .forEach(each -> found.computeIfAbsent(each[0], name -> new TreeSet<>()).add(Integer.parseInt(each[1])));
        return found;
    }

    private static Map<String, Map<Integer, Long>> offsets(String text) {
        Map<String, Map<Integer, Long>> found = new TreeMap<>();
        Arrays.stream(text.split(",")).filter(each -> !each.isEmpty()).map(each -> each.split("_"))
            .forEach(each -> found.computeIfAbsent(each[0], name -> new TreeMap<>())
                .put(Integer.parseInt(each[1]), Long.parseLong(each[2])));
        return found;
    }

    private static String shown(Map<String, Set<Integer>> tasks) {
        Set<String> names = new TreeSet<>();
        tasks.forEach((name, partitions) -> partitions.forEach(each -> names.add(name + "_" + each)));
        return String.join(",", names);
    }
}
