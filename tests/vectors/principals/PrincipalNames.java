import java.util.*;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * For each line of standard input, rules and a distinguished name as hexadecimal UTF-8 with a tab between them: what
 * Kafka's SslPrincipalMapper makes of them, "=" and the name as hexadecimal UTF-8, or "!" where it throws.
 * Run with Kafka's jars on the class path; `python -m tests.vectors.principals` writes the answers into names.json.
 */
public class PrincipalNames {
  public static void main(String[] arguments) throws Exception {
    HexFormat hex = HexFormat.of();
    Scanner lines = new Scanner(System.in, "UTF-8");
    while (lines.hasNextLine()) {
      String[] parts = lines.nextLine().split("\t", -1);
      String rules = new String(hex.parseHex(parts[0]), "UTF-8");
      String name = new String(hex.parseHex(parts[1]), "UTF-8");
      String answer;
      try {
        answer = "=" + hex.formatHex(SslPrincipalMapper.fromRules(rules).getName(name).getBytes("UTF-8"));
      } catch (Exception | StackOverflowError problem) {
        answer = "!";
      }
      System.out.println(answer);
    }
  }
}
