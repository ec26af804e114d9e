"""Runs a command on each host of a test bed.

scripts/testbed --hosts 2 --rate 300mbit -- python examples/train.py
scripts/testbed --hosts 2 --torchrun 2 -- examples/train.py --model gpt
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from . import cores, launch
from .namespaces import TestbedError
from .network import Network, format_rate, parse_rate

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))


def parse():
    parser = argparse.ArgumentParser(
        prog="testbed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--rate", default="1gbit", help="of each link, such as 300mbit")
    parser.add_argument(
        "--torchrun", type=int, metavar="N", help="start N processes per host by torchrun"
    )
    parser.add_argument("--pin", action="store_true", help="give each host a CPU of its own")
    parser.add_argument("--timeout", type=float, help="seconds after which all is ended")
    parser.add_argument(
        "--quick", action="store_true", help="measure neither links nor cores before"
    )
    parser.add_argument("command", nargs="+", help="behind --: what each host runs")
    return parser.parse_args()


def describe(network):
    """Prints what the bed is, measured."""
    rates = ", ".join(format_rate(rate) for rate in network.measure())
    print(f"{network.hosts} hosts, links of {format_rate(network.rate)}; iperf3: {rates}")
    ratio = cores.measure_cores(BUILD / "bin/core-rate")
    shared = ", shared core" if cores.is_shared(ratio) else ""
    print(f"two CPUs compute {ratio:.2f} times what one does{shared}", flush=True)


def lines(network, options):
    for host in range(network.hosts):
        if options.torchrun:
            line = launch.torchrun(network, host, options.torchrun, options.command)
        else:
            line = options.command, launch.job_environment(network, host)
        if options.pin:
            line = ["taskset", "-c", launch.core_of(host), *line[0]], line[1]
        yield line


def interrupt(number, _):
    sys.exit(128 + number)


def main():
    options = parse()
    # So that the network is closed on the way.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with Network(options.hosts, parse_rate(options.rate)) as network:
        if not options.quick:
            describe(network)
        codes = launch.run(network, list(lines(network, options)), timeout=options.timeout)
    for host, code in enumerate(codes):
        if code:
            print(f"testbed: error: host {host}: exit status {code}", file=sys.stderr)
    return next((code if code > 0 else 128 - code for code in codes if code), 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except TestbedError as error:
        sys.exit(f"testbed: error: {error}")
