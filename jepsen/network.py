"""The network of a cluster: one namespace per node and one for the switch that joins them, whose firewall cuts any
ordered pair of hosts.

A cut is a pair (from, to) in a set of the bridge family's firewall: frames from the one to the other are dropped,
nothing else is. So every shape of partition is a set of pairs, one-way cuts included, and it is set in one command.
The switch counts the frames it dropped for each pair; a cut that dropped none did not bite. Loss works alike, with a
chance. Addresses: node n has 10.77.0.n, clients (the harness's own namespace) have 10.77.0.100.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from jepsen.sandbox import ROOT, run
from jepsen.wire import Counts, Quality

CLIENTS = 100
PREFIX = "10.77.0."
SWITCH = "switch"
RULES = """
table bridge jepsen {
  set cut { type ipv4_addr . ipv4_addr; counter; }
  set lossy { type ipv4_addr . ipv4_addr; counter; }
  counter lost { }
  chain forward {
    type filter hook forward priority 0; policy accept;
    ip saddr . ip daddr @cut drop
    ip saddr . ip daddr @lossy numgen random mod 100 < PERCENT counter name lost drop
  }
}
"""

WIRE_END_SECONDS_MAX = 10.0
WIRE = (sys.executable, str(ROOT / "jepsen" / "wire.py"))

Pair = tuple[int, int]


def address(host: int) -> str:
    """The address of a node, or of CLIENTS."""
    return f"{PREFIX}{host}"


class Network:
    """The namespaces and the switch of a cluster. Created inside the sandbox, and removed with it."""

    def __init__(self, nodes: Iterable[int], loss_percent: int = 20) -> None:
        self.nodes = tuple(nodes)
        self._wires: dict[int, subprocess.Popen[str]] = {}
        run("ip", "netns", "add", SWITCH)
        run("ip", "-n", SWITCH, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", SWITCH, "link", "set", "br0", "up")
        for node in self.nodes:
            self.attach(node)
        run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "clients", "netns", SWITCH)
        run("ip", "-n", SWITCH, "link", "set", "clients", "master", "br0", "up")
        run("ip", "addr", "add", f"{address(CLIENTS)}/24", "dev", "eth0")
        run("ip", "link", "set", "eth0", "up")
        self._nft(RULES.replace("PERCENT", str(loss_percent)))

    def attach(self, node: int) -> None:
        """Create a namespace for the node, with a cable to the switch."""
        name = f"n{node}"
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"v{node}", "netns", SWITCH)
        run("ip", "-n", SWITCH, "link", "set", f"v{node}", "master", "br0", "up")
        run("ip", "-n", name, "addr", "add", f"{address(node)}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            run("ip", "-n", name, "link", "set", device, "up")

    def detach(self, node: int) -> None:
        """Delete the node's namespace; its cable goes with it."""
        run("ip", "netns", "delete", f"n{node}")
        # The kernel may not have got to it yet.
        subprocess.run(["ip", "-n", SWITCH, "link", "delete", f"v{node}"], capture_output=True, check=False)

    @property
    def clients(self) -> str:
        """The address of the harness."""
        return address(CLIENTS)

    def listens(self, node: int) -> str:
        return address(node)

    def known_as(self, node: int) -> str:
        """The node's advertised address."""
        return address(node)

    def close(self) -> None:
        """Do nothing: the network is removed with the sandbox."""

    def enter(self, node: int) -> list[str]:
        """The prefix of a command line that runs it in the node's namespace, as the same process."""
        return ["nsenter", f"--net=/run/netns/n{node}"]

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Drop the frames from the first to the second host of each pair, in addition to earlier cuts."""
        self._change("add", "cut", pairs)

    def heal(self, pairs: Iterable[Pair]) -> None:
        self._change("delete", "cut", pairs)

    def lose(self, pairs: Iterable[Pair]) -> None:
        """Drop a share of the frames between each pair."""
        self._change("add", "lossy", pairs)

    def lose_no_more(self, pairs: Iterable[Pair]) -> None:
        self._change("delete", "lossy", pairs)

    def heal_all(self) -> None:
        for node in list(self._wires):
            self.degrade_no_more(node)
        self._nft("flush set bridge jepsen cut\nflush set bridge jepsen lossy\n")

    def dropped(self, pairs: Iterable[Pair]) -> int:
        """The number of frames dropped since each pair was cut."""
        wanted = {(address(source), address(target)) for source, target in pairs}
        listing = json.loads(self._nft_output("-j", "list", "set", "bridge", "jepsen", "cut"))
        elements = next(entry["set"] for entry in listing["nftables"] if "set" in entry).get("elem", [])
        return sum(
            each["elem"]["counter"]["packets"] for each in elements if tuple(each["elem"]["val"]["concat"]) in wanted
        )

    def lost(self) -> int:
        """The number of frames lost at random since the beginning."""
        listing = json.loads(self._nft_output("-j", "list", "counter", "bridge", "jepsen", "lost"))
        return int(next(entry["counter"]["packets"] for entry in listing["nftables"] if "counter" in entry))

    def throttle(self, node: int, kbit: int) -> None:
        """Limit what a node sends to `kbit` per second: queues form, and responses are late."""
        run(
            "tc",
            "-n",
            f"n{node}",
            "qdisc",
            "replace",
            "dev",
            "eth0",
            "root",
            "tbf",
            "rate",
            f"{kbit}kbit",
            "burst",
            "16k",
            "latency",
            "400ms",
        )

    def throttle_no_more(self, node: int) -> int:
        """End the limit. Returns how many frames were delayed or dropped."""
        counted = json.loads(run("tc", "-s", "-j", "-n", f"n{node}", "qdisc", "show", "dev", "eth0"))
        run("tc", "-n", f"n{node}", "qdisc", "del", "dev", "eth0", "root")
        return sum(int(each.get("overlimits", 0)) + int(each.get("drops", 0)) for each in counted)

    def degrade(self, node: int, quality: Quality, seed: int) -> None:
        """Replace the node's cable by a bad one (`jepsen/wire.py`)."""
        port, tap = f"v{node}", f"tap{node}"
        self._offload(node, False)
        inside = [
            "nsenter",
            f"--net=/run/netns/{SWITCH}",
            *WIRE,
            "run",
            port,
            tap,
            json.dumps(asdict(quality)),
            str(seed),
        ]
        wire = subprocess.Popen(inside, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._wires[node] = wire
        assert wire.stdout is not None
        if wire.stdout.readline() != "ready\n":
            self.degrade_no_more(node)
            raise RuntimeError("the bad cable cannot be laid")
        run("ip", "-n", SWITCH, "link", "set", tap, "master", "br0", "up")
        run("ip", "-n", SWITCH, "link", "set", port, "nomaster")

    def degrade_no_more(self, node: int) -> Counts:
        """Restore the node's cable. Returns what the bad one did."""
        wire = self._wires.pop(node)
        told, _ = wire.communicate(timeout=WIRE_END_SECONDS_MAX)
        run("ip", "-n", SWITCH, "link", "set", f"v{node}", "master", "br0")
        self._offload(node, True)
        return Counts(**json.loads(told)) if told else Counts()

    def _offload(self, node: int, wanted: bool) -> None:
        """Turn the device's offloading of checksums and segmentation on or off. A veth never does that work, which
        shows when frames leave the kernel."""
        run(*self.enter(node), *WIRE, "offload", "eth0", str(int(wanted)))

    def _change(self, verb: str, name: str, pairs: Iterable[Pair]) -> None:
        elements = ", ".join(f"{address(source)} . {address(target)}" for source, target in sorted(set(pairs)))
        if elements:
            self._nft(f"{verb} element bridge jepsen {name} {{ {elements} }}\n")

    def _nft(self, script: str) -> None:
        run("nsenter", f"--net=/run/netns/{SWITCH}", "nft", "-f", "-", stdin=script)

    def _nft_output(self, *arguments: str) -> str:
        return run("nsenter", f"--net=/run/netns/{SWITCH}", "nft", *arguments)


def namespaces() -> list[str]:
    """The names of the network namespaces in this mount namespace."""
    folder = Path("/run/netns")
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
