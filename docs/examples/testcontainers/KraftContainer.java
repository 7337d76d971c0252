import com.github.dockerjava.api.command.InspectContainerResponse;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * A node of kraft. It tells its clients the address that the host has given its port. That is known only when the
 * container runs: so the container waits for a file with the command.
 */
class KraftContainer extends GenericContainer<KraftContainer> {
    private static final String BEGIN = "/tmp/begin";

    KraftContainer(String image) {
        super(DockerImageName.parse(image));
        withExposedPorts(9092, 9644);
        withCreateContainerCmdModifier(create -> create.withEntrypoint("sh", "-c",
            "until [ -f " + BEGIN + " ]; do sleep 0.05; done; exec sh " + BEGIN));
        waitingFor(Wait.forHttp("/readyz").forPort(9644));
    }

    @Override
    protected void containerIsStarting(InspectContainerResponse container) {
        String command = "exec kraft-node --format --listen 0.0.0.0:9092 --set kraft.admin.listener=0.0.0.0:9644"
            + " --set advertised.listeners=PLAINTEXT://" + bootstrapServers();
        copyFileToContainer(Transferable.of(command), BEGIN);
    }

    /** For clients on the host. */
    String bootstrapServers() {
        return getHost() + ":" + getMappedPort(9092);
    }

    /** The node's HTTP API. */
    String admin() {
        return "http://" + getHost() + ":" + getMappedPort(9644);
    }
}
