import java.util.Map;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Serves Iceberg's REST catalog over a warehouse in a directory, on a free port of this machine, which it prints. */
class RestCatalog {
  public static void main(String[] arguments) throws Exception {
    var catalog = new JdbcCatalog();
    catalog.setConf(new org.apache.hadoop.conf.Configuration());
    var place = arguments[0];
    catalog.initialize(
        "rest",
        Map.of("uri", "jdbc:sqlite:" + place + "/rest.db", "warehouse", "file://" + place + "/warehouse", "jdbc.schema-version", "V1"));
    var handler = new ServletContextHandler();
    handler.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    var server = new Server();
    var connector = new ServerConnector(server);
    connector.setHost("127.0.0.1");
    server.addConnector(connector);
    server.setHandler(handler);
    server.start();
    System.out.println("http://127.0.0.1:" + connector.getLocalPort());
    server.join();
  }
}
