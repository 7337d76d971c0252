import org.apache.kafka.common.config.*; import java.util.*;
/**
 * For every key and a battery of texts: what Kafka's ConfigDef makes of them, as JSON rows [table, key, text, [accepted, canonical text or message]].
 * Compile and run with Kafka's jars on the class path; the rows, grouped by table and key, are config_texts.json.gz.
 */
public class ConfigTexts {
  static String q(String s){ return s==null?"null":"\""+s.replace("\\","\\\\").replace("\"","\\\"").replace("\n","\\n")+"\""; }
  static void run(String kind, ConfigDef d, List<String> out) {
    for (ConfigDef.ConfigKey k : d.configKeys().values()) {
      if (k.type == ConfigDef.Type.CLASS) continue;
      Set<String> t = new LinkedHashSet<>(List.of("", " ", "a", "a,a", "a, b", "a,", "-1", "0", "1", " 7 ", "+5", "-0", "100", "99999", "3000000000", "99999999999999999999", "1.5", "1e3", "NaN", "0x10", "true", "FALSE", "yes", "delete", "compact", "compact,delete", "gzip", "GZIP", "*", "0:1,1:2", "1@h:9", "h:9", "by_duration:PT1H", "earliest"));
      if (k.defaultValue != null && k.hasDefault()) t.add(ConfigDef.convertToString(k.defaultValue, k.type));
      for (String v : t) {
        String res;
        try { Object o = ConfigDef.parseType(k.name, v, k.type); if (k.validator != null) k.validator.ensureValid(k.name, o); res = "[true, "+q(o instanceof org.apache.kafka.common.config.types.Password ? v.trim() : ConfigDef.convertToString(o, k.type))+"]"; }
        catch (ConfigException e) { res = "[false, "+q(e.getMessage())+"]"; }
        catch (Exception e) { res = "[false, "+q(e.getClass().getName())+"]"; }
        out.add("["+q(kind)+", "+q(k.name)+", "+q(v)+", "+res+"]");
      }
    }
  }
  public static void main(String[] a) throws Exception {
    List<String> out = new ArrayList<>();
    run("broker", kafka.server.KafkaConfig.configDef(), out);
    run("topic", org.apache.kafka.storage.internals.log.LogConfig.configDefCopy(), out);
    for (java.lang.reflect.Field f : org.apache.kafka.coordinator.group.GroupConfig.class.getDeclaredFields()) if (f.getType()==ConfigDef.class) { f.setAccessible(true); run("group",(ConfigDef) f.get(null), out); }
    System.out.println("["+String.join(",\n", out)+"]");
  }
}
