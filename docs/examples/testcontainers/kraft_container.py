"""A node of kraft in a container, for Testcontainers: pip install testcontainers."""

from typing import Self

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

BEGIN = "/tmp/begin"


class KraftContainer(DockerContainer):
    """`bootstrap` is for clients on the host, `admin` is the node's HTTP API.

    The node tells its clients the address that the host has given its port. That is known only when the container
    runs: so the container waits for a file with the command.
    """

    def __init__(self, image: str = "kraft") -> None:
        waits = f"until [ -f {BEGIN} ]; do sleep 0.05; done; exec sh {BEGIN}"
        super().__init__(image, entrypoint=["sh", "-c", waits])
        self.with_exposed_ports(9092, 9644)

    def start(self) -> Self:
        super().start()
        command = (
            f"exec kraft-node --format --listen 0.0.0.0:9092 --set advertised.listeners=PLAINTEXT://{self.bootstrap}"
        )
        command += " --set kraft.admin.listener=0.0.0.0:9644"
        self.exec(["sh", "-c", f"echo '{command}' >{BEGIN}.new && mv {BEGIN}.new {BEGIN}"])
        HttpWaitStrategy(9644, "/readyz").with_startup_timeout(60).wait_until_ready(self)
        return self

    @property
    def bootstrap(self) -> str:
        return self._address(9092)

    @property
    def admin(self) -> str:
        return f"http://{self._address(9644)}"

    def _address(self, port: int) -> str:
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(port)}"
