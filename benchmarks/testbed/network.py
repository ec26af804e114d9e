"""Hosts on one machine: network namespaces at a bridge, with links of a given rate."""

import itertools
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import namespaces
from .namespaces import TestbedError, call

# Of the bridge's network; hosts are .1, .2, ...
NETWORK = "10.77.0"
INTERFACE = "eth0"
MAX_HOSTS = 8
# A bucket that is full when a link has been idle, so that a message then has so many bytes for nothing: as few as the
# kernel can send at once. How long packets wait before they are dropped.
BURST, LATENCY = "72kb", "20ms"

_numbers = itertools.count()
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def parse_rate(text):
    """'300mbit' -> bits per second."""
    found = re.fullmatch(r"([\d.]+)\s*([kmg]bit)(?:/s)?", str(text).lower())
    if not found or float(found[1]) <= 0:
        raise TestbedError(f"rate: found {text!r}, expected a number with a unit, such as 300mbit")
    return float(found[1]) * _UNITS[found[2]]


def format_rate(bits):
    return f"{bits / 1e9:.4g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.4g} Mbit/s"


class Network:
    """`hosts` namespaces and one for the bridge, until `close`, or until this process ends in any way.

    Each host has one link, shaped at both of its ends to `rate` (bits per second, or such as '300mbit'), and nothing
    else: neither the machine's network nor that of another bed. Needs root.
    """

    def __init__(self, hosts=2, rate="1gbit"):
        if os.geteuid() != 0:
            raise TestbedError("network namespaces need root, try sudo")
        if not 1 <= hosts <= MAX_HOSTS:
            raise TestbedError(f"hosts: found {hosts}, expected 1 to {MAX_HOSTS}")
        self.hosts, self.rate = hosts, None
        namespaces.remove_stale()
        prefix = namespaces.get_prefix(next(_numbers))
        self.names = [f"{prefix}-host{host}" for host in range(hosts)]
        self._switch = f"{prefix}-switch"
        self._guard = subprocess.Popen(
            [sys.executable, Path(namespaces.__file__)],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            self._make()
            self.set_rate(rate)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends what runs on the hosts, and removes them. May be called again."""
        if self._guard.stdin.closed:
            return
        self._guard.stdin.close()
        if self._guard.wait() != 0:
            raise TestbedError("not all namespaces could be removed, see above")

    def _make(self):
        for name in (self._switch, *self.names):
            self._guard.stdin.write(f"{name}\n")
            self._guard.stdin.flush()
            call("ip", "netns", "add", name)
            call("ip", "-n", name, "link", "set", "lo", "up")
        self._in_switch("link", "add", "bridge", "type", "bridge", "forward_delay", "0")
        self._in_switch("link", "set", "bridge", "up")
        for host, name in enumerate(self.names):
            port, cable = self._port(host), ("peer", "name", INTERFACE, "netns", name)
            self._in_switch("link", "add", port, "type", "veth", *cable)
            self._in_switch("link", "set", port, "master", "bridge", "up")
            call("ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", INTERFACE)
            call("ip", "-n", name, "link", "set", INTERFACE, "up")
            self._set_route(host)

    def _set_route(self, host):
        """BBR, which is the default of some machines, measures the bucket in place of the link."""
        where = (f"{NETWORK}.0/24", "dev", INTERFACE, "src", self.address(host))
        call("ip", "-n", self.names[host], "route", "replace", *where, "congctl", "cubic")

    def _in_switch(self, *words):
        return call("ip", "-n", self._switch, *words)

    @staticmethod
    def _port(host):
        return f"port{host}"

    def address(self, host):
        return f"{NETWORK}.{host + 1}"

    def set_rate(self, rate, host=None):
        """Of every link, or of that of one host, in both directions, from now on."""
        bits = parse_rate(rate) if isinstance(rate, str) else float(rate)
        shape = ("tbf", "rate", f"{bits:.0f}bit", "burst", BURST, "latency", LATENCY)
        for number in range(self.hosts) if host is None else (host,):
            name, port = self.names[number], self._port(number)
            call("tc", "-n", name, "qdisc", "replace", "dev", INTERFACE, "root", *shape)
            call("tc", "-n", self._switch, "qdisc", "replace", "dev", port, "root", *shape)
        if host is None:
            self.rate = bits

    def set_link(self, host, up):
        """Plugs a host's cable in or out."""
        self._in_switch("link", "set", self._port(host), "up" if up else "down")
        if up:
            self._set_route(host)

    def enter(self, host, command):
        """The command line that runs `command` on a host."""
        return ["ip", "netns", "exec", self.names[host], *map(str, command)]

    def pids(self, host):
        return namespaces.pids_in(self.names[host])

    def bytes_sent(self):
        """What each host's interface has sent since the bed was made, headers too."""
        texts = [
            call("ip", "-n", name, "-s", "-j", "link", "show", INTERFACE) for name in self.names
        ]
        return [json.loads(text)[0]["stats64"]["tx"]["bytes"] for text in texts]

    def measure(self, seconds=1.0):
        """Payload that iperf3 gets through: bits per second of each host's link to the next one, all at once, so
        that every link is busy in both directions.
        """
        with ThreadPoolExecutor(self.hosts) as pool:
            return list(pool.map(lambda host: self._measure_link(host, seconds), range(self.hosts)))

    def _measure_link(self, host, seconds):
        other, port = (host + 1) % self.hosts, str(5201 + host)
        server = subprocess.Popen(
            self.enter(other, ["iperf3", "-s", "-1", "-p", port]),
            stdout=subprocess.DEVNULL,
        )
        client = ["iperf3", "-c", self.address(other), "-p", port, "-t", f"{seconds:g}", "-O", "1"]
        try:
            self._wait_for_port(other, port)
            text = call(*self.enter(host, [*client, "-J"]))
        finally:
            server.kill()
            server.wait()
        return json.loads(text)["end"]["sum_received"]["bits_per_second"]

    def _wait_for_port(self, host, port):
        for _ in range(200):
            if f":{port} " in call(*self.enter(host, ["ss", "-Hltn"])):
                return
            time.sleep(0.02)
        raise TestbedError(f"host {host}: iperf3 does not listen on port {port} within 4 s")
