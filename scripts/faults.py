#!/usr/bin/env python3
"""Fault injection: kills and stops processes of jobs and cuts their links at random moments, and checks the outcome.

faults [--count N] [--seed S] [--only KIND ...] [--timeout SECONDS]

A job is tandem-run on two or four processes, which train a few steps and save. It must end within the timeout, with one
error in all live processes. If nothing was lost, it must give the numbers and the file of a single process. Prints a
line per job and a table; exit status 1 if a job was wrong.
"""

import argparse
import contextlib
import ctypes
import itertools
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from fault_programs import (
    PHASES,
    POINTS,
    RUN,
    Program,
    compile_pipeline,
    compile_program,
    let_sleep,
    poison,
)

# What the machine may add to the timeout: it has few cores, and other work.
SLACK = 2.0 * float(os.environ.get("TANDEM_PATIENCE") or 1)
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


class Broken(Exception):
    """What a job did that it must not do."""


# Hosts


class Hosts:
    """Network namespaces on one bridge. Each is that of a process that ends with this one, so that none is
    left even when this one is killed."""

    def __init__(self, count):
        self.holders = [self._hold() for _ in range(count + 1)]
        switch, *self.hosts = (holder.pid for holder in self.holders)
        self.switch = switch
        self._ip(switch, "link add bridge type bridge")
        self._ip(switch, "link set bridge up")
        for number, host in enumerate(self.hosts):
            self._ip(switch, f"link add port{number} type veth peer name eth0 netns {host}")
            self._ip(switch, f"link set port{number} master bridge up")
            self._ip(host, f"addr add {self.address(number)}/24 dev eth0")
            for device in ("lo", "eth0"):
                self._ip(host, f"link set {device} up")

    @staticmethod
    def missing():
        """Why there can be no hosts; None if there can."""
        if os.geteuid() != 0:
            return "needs root"
        try:
            Hosts(1).close()
        except (OSError, subprocess.SubprocessError) as error:
            return f"needs network namespaces: {error}"
        return None

    @staticmethod
    def _hold():
        return subprocess.Popen(
            ["sleep", "infinity"], preexec_fn=lambda: (die_with_parent(), unshare(CLONE_NEWNET))
        )

    @staticmethod
    def _ip(host, words):
        subprocess.run(
            ["nsenter", "-t", str(host), "-n", "ip", *words.split()],
            check=True,
            capture_output=True,
        )

    @staticmethod
    def address(host):
        return f"10.99.0.{host + 1}"

    def enter(self, host):
        """For the child of a fork: be on that host."""
        with open(f"/proc/{self.hosts[host]}/ns/net") as file:
            if LIBC.setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def set_link(self, host, state, at_switch):
        """Unplugs the cable, or takes the interface of the host down; and back."""
        place, device = (self.switch, f"port{host}") if at_switch else (self.hosts[host], "eth0")
        self._ip(place, f"link set {device} {state}")

    @contextlib.contextmanager
    def cut(self, host, at_switch):
        """While it lasts, no packet reaches the host."""
        self.set_link(host, "down", at_switch)
        try:
            yield
        finally:
            self.set_link(host, "up", at_switch)

    def close(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()


def die_with_parent():
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def unshare(flags):
    if LIBC.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")


# Jobs


@dataclass
class Process:
    number: int
    child: subprocess.Popen
    output: Path
    ended: float = None

    def text(self):
        return self.output.read_text(errors="replace")

    def error(self):
        """What it says behind "error: ", on its one line; None if it says nothing."""
        lines = re.findall(r"^tandem(?:-run)?: error: (.*)$", self.text(), re.M)
        if len(lines) > 1:
            raise Broken(f"process {self.number} says {len(lines)} errors: {lines}")
        return lines[0] if lines else None

    def losses(self):
        """A line of each step, without its seconds where it sleeps."""
        return re.findall(r"^step \d+ (?:timed|.*\n)", self.text(), re.M)


def peak_of(pid):
    """Bytes of address space, at most so far."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmPeak:\s+(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0


@dataclass
class Bench:
    """What all jobs share: files, Programs, hosts if there can be some."""

    folder: Path
    timeout: float
    programs: list
    sleeping: Program = None  # a pipeline
    hosts: Hosts = None
    peaks: dict = field(default_factory=dict)  # bytes of a process, by processes
    numbers: itertools.count = field(default_factory=itertools.count)

    def close(self):
        if self.hosts:
            self.hosts.close()


class Job:
    """Processes of one Program; `limits` are set in the children, by process."""

    def __init__(self, bench, program, count, on_hosts=False):
        self.bench, self.program, self.count = bench, program, count
        self.folder = bench.folder / f"job{next(bench.numbers)}"
        self.folder.mkdir()
        self.saved = self.folder / "saved.safetensors"
        # What was there before has to be there until the new one is whole.
        self.old = program.data.read_bytes()[:1000]
        self.saved.write_bytes(self.old)
        # Bound as long as this is, so that nobody is given it by chance.
        self.holder = socket.socket()
        self.holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.holder.bind(("127.0.0.1", 0))
        self.on_hosts, self.port = on_hosts, self.holder.getsockname()[1]
        self.limits = {}
        self.processes = []
        self.peak = 0

    def start(self, numbers=None, programs=None, arguments=()):
        for number in range(self.count) if numbers is None else numbers:
            program = (programs or {}).get(number, self.program)
            values = ["--data", program.data, "--save", self.saved]
            options = ["--times", program.times] if program.times else values
            command = [RUN, program.path, f"--steps={program.steps}", *options, *arguments]
            self._start(number, command)

    def host_of(self, number):
        return number * len(self.bench.hosts.hosts) // self.count

    def _start(self, number, command):
        job = {
            "RANK": str(number),
            "WORLD_SIZE": str(self.count),
            "MASTER_ADDR": Hosts.address(0) if self.on_hosts else "127.0.0.1",
            "MASTER_PORT": str(self.port),
            "TANDEM_TIMEOUT": str(self.bench.timeout),
            "OMP_NUM_THREADS": "1",
        }
        if self.count == 1:
            job = {}

        def prepare():
            die_with_parent()
            if self.on_hosts:
                self.bench.hosts.enter(self.host_of(number))
            for kind, limit in self.limits.get(number, ()):
                resource.setrlimit(kind, (limit, limit))
            # A file that grows too large is an error, not a signal.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        output = self.folder / f"process{number}.txt"
        with open(output, "w") as file:
            child = subprocess.Popen(
                command,
                env=os.environ | job,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                preexec_fn=prepare,
                restore_signals=False,
                start_new_session=True,
            )
        self.processes.append(Process(number, child, output))

    def wait(self, until, among=None):
        """Until all have ended, or that time has come. Notes when each ended."""
        among = self.processes if among is None else among
        while True:
            for process in self.processes:
                if process.ended is None and process.child.poll() is not None:
                    process.ended = time.monotonic()
                elif process.ended is None:
                    self.peak = max(self.peak, peak_of(process.child.pid))
            if all(p.ended is not None for p in among):
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(0.005)

    def end(self):
        """Ends whatever is left."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.child.pid, signal.SIGKILL)
            process.child.wait()

    # What has to hold

    def check_none_left(self):
        for process in self.processes:
            if process.child.poll() is None:
                raise Broken(f"process {process.number} is left")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.child.pid, 0)
                raise Broken(f"process {process.number} has left another one")

    def check_numbers(self):
        """Whatever happened: what was printed is what one process prints, as far as it goes."""
        for process in self.processes:
            losses = process.losses()
            if losses != self.program.losses[: len(losses)]:
                raise Broken(f"process {process.number} prints other losses than one process")

    def check_file(self, whole=False):
        saved = self.saved.read_bytes()
        if saved != self.program.saved and (whole or saved != self.old):
            raise Broken("the saved file is neither the old one nor the right one")

    def check_success(self):
        for process in self.processes:
            if process.child.returncode != 0:
                raise Broken(f"process {process.number} ends with {process.error()!r}")
        if self.processes[0].losses() != self.program.losses:
            raise Broken("process 0 has not printed all losses")
        self.check_file(whole=True)

    def check_errors(self, survivors, names):
        """All survivors end with an error that matches `names`; returns one of them."""
        errors = []
        for process in survivors:
            error = process.error()
            if process.child.returncode != 1 or error is None:
                raise Broken(
                    f"process {process.number} ends with {process.child.returncode}, says {error!r}"
                )
            if not re.search(names, error):
                raise Broken(f"process {process.number} says {error!r}, expected {names}")
            errors.append(error)
        return errors


# Faults: each starts a job, does it harm, and returns what its survivors said, or "" if nothing was lost.


@dataclass
class Fault:
    """Of one job: what is drawn, and what happened."""

    bench: Bench
    draw: random.Random
    kind: str
    count: int = 0
    victim: int = 0
    moment: float = 0
    took: float = 0  # from the fault to the last survivor's end
    said: str = ""
    wrong: str = ""
    job: Job = None

    def choose(self, on_hosts=False):
        self.count = self.draw.choice((2, 4))
        self.victim = self.draw.randrange(self.count)
        program = self.draw.choice(self.bench.programs)
        self.job = Job(self.bench, program, self.count, on_hosts)
        return self.job

    def let_run(self, job):
        """Until a random moment of the job's life: coming, training, saving, leaving."""
        steps = self.draw.randrange(-job.program.steps // 3, job.program.steps + 1)
        seconds = self.draw.uniform(0, 0.02 if steps > 0 else job.program.start[self.count])
        begin = time.monotonic()
        while len(job.processes[0].losses()) < steps and job.processes[0].ended is None:
            job.wait(time.monotonic() + 0.005)
        job.wait(time.monotonic() + seconds)
        self.moment = time.monotonic() - begin

    def await_end(self, job, among, begin):
        if not job.wait(begin + self.bench.timeout + SLACK, among):
            left = [p.number for p in among if p.ended is None]
            raise Broken(
                f"processes {left} go on {time.monotonic() - begin:.1f} s behind the fault"
            )
        self.took = max(0.0, max(p.ended for p in among) - begin)

    def judge(self, job, survivors, names):
        """Either the job was over, or all survivors say so."""
        job.check_numbers()
        job.check_file()
        if any(p.child.returncode == 0 for p in survivors):
            job.check_file(whole=True)
        if self.victim == 0:  # then each decides for itself, also whether all had ended
            survivors = [p for p in survivors if p.child.returncode != 0]
        if all(p.child.returncode == 0 for p in survivors):
            return
        errors = job.check_errors(survivors, names)
        if self.victim != 0 and len(set(errors)) > 1:
            raise Broken(f"survivors say different things: {sorted(set(errors))}")
        self.said = errors[0]

    def names(self):
        """How an error names the victim, wherever the job was."""
        v = self.victim
        return rf"^process {v} \(|missing: (\d, )*{v}\b|process 0 at|does not find process {v}\b"

    def kill(self):
        job = self.choose()
        job.start()
        self.let_run(job)
        victim = job.processes[self.victim]
        survivors = [p for p in job.processes if p is not victim]
        begin = time.monotonic()
        victim.child.send_signal(signal.SIGKILL)
        victim.child.wait()
        self.await_end(job, survivors, begin)
        return lambda: self.judge(job, survivors, self.names())

    def stage(self):
        """A point of a pipeline is killed or stands still, in a forward or a backward pass or in its updates."""
        self.count, self.victim = POINTS, self.draw.randrange(POINTS)
        self.phase = self.draw.choice(list(PHASES))
        job = self.job = Job(self.bench, self.bench.sleeping, self.count)
        job.start()
        while not job.processes[0].losses():
            job.wait(time.monotonic() + 0.002)
        self.moment = self.draw.uniform(*PHASES[self.phase])
        time.sleep(self.moment)
        return self.lose(job, self.draw.choice((signal.SIGKILL, signal.SIGSTOP)))

    def lose(self, job, number):
        """The victim, by a signal; nothing may have been saved."""
        victim = job.processes[self.victim]
        survivors = [p for p in job.processes if p is not victim]
        begin = time.monotonic()
        victim.child.send_signal(number)
        try:
            self.await_end(job, survivors, begin)
        finally:
            victim.child.kill()
            victim.child.wait()
        if any(p.child.returncode == 0 for p in survivors):
            raise Broken("a process ends as if nothing were lost")
        return lambda: self.judge(job, survivors, self.names())

    def nan(self):
        """A layer of a pipeline is not finite: all points refuse the step."""
        self.count, self.victim = self.draw.choice((2, POINTS)), 0
        pipeline = next(p for p in self.bench.programs if p.path == self.bench.sleeping.path)
        job = self.job = Job(self.bench, poison(pipeline, self.draw.randrange(POINTS)), self.count)
        begin = time.monotonic()
        job.start()
        self.await_end(job, job.processes, begin + self.bench.timeout)
        return lambda: self.judge_refusal(job)

    def judge_refusal(self, job):
        self.said = job.check_errors(job.processes, "loss is nan, expected a finite value")[0]
        if any(process.losses() for process in job.processes):
            raise Broken("a step that was refused has a loss")
        if job.saved.read_bytes() != job.old:
            raise Broken("a refused step has been saved")

    def stop(self):
        """Stands still for longer than the timeout, then finds that it is not missed any more."""
        job = self.choose()
        job.start()
        self.let_run(job)
        victim = job.processes[self.victim]
        survivors = [p for p in job.processes if p is not victim]
        begin = time.monotonic()
        victim.child.send_signal(signal.SIGSTOP)
        try:
            self.await_end(job, survivors, begin)
        finally:
            victim.child.send_signal(signal.SIGCONT)
        if not job.wait(time.monotonic() + self.bench.timeout + SLACK, [victim]):
            raise Broken(f"process {victim.number} goes on though the job is over")
        return lambda: self.judge(job, survivors, self.names())

    def pause(self):
        """Stands still for less than that: nothing is lost."""
        job = self.choose()
        job.start()
        self.let_run(job)
        begin = time.monotonic()
        victim = job.processes[self.victim].child
        victim.send_signal(signal.SIGSTOP)
        time.sleep(self.draw.uniform(0, self.bench.timeout / 4))
        victim.send_signal(signal.SIGCONT)
        self.await_end(job, job.processes, begin)
        return job.check_success

    def link(self):
        """A host is cut off: both sides end."""
        job, cut = self.run_to_cut()
        begin = time.monotonic()
        with cut:
            self.await_end(job, job.processes, begin)
        return lambda: self.judge_sides(job)

    def run_to_cut(self):
        """A job on hosts that is under way, and what cuts the victim's host off."""
        job = self.choose(on_hosts=True)
        at_switch = self.draw.random() < 0.5
        job.start()
        self.let_run(job)
        return job, self.bench.hosts.cut(job.host_of(self.victim), at_switch)

    def judge_sides(self, job):
        job.check_numbers()
        job.check_file()
        ends = {p.child.returncode for p in job.processes}
        if ends == {0}:
            return
        wrong = [p for p in job.processes if p.child.returncode != 0]
        names = r"^process \d+ |missing: |not find process 0|: rank"
        self.said = job.check_errors(wrong, names)[0]

    def blink(self):
        """A link that comes back in time loses nothing."""
        job, cut = self.run_to_cut()
        begin = time.monotonic()
        with cut:
            time.sleep(self.draw.uniform(0, self.bench.timeout / 8))
        self.await_end(job, job.processes, begin)
        return job.check_success

    def absent(self):
        """One process never comes."""
        job = self.choose()
        begin = time.monotonic()
        job.start([n for n in range(self.count) if n != self.victim])
        self.await_end(job, job.processes, begin)
        return lambda: self.judge(job, job.processes, self.names())

    def programs(self):
        """One process has another Program."""
        job = self.choose()
        other = next(p for p in self.bench.programs if p is not job.program)
        begin = time.monotonic()
        job.start(programs={self.victim: other})
        self.await_end(job, job.processes, begin)
        odd = self.victim or 1
        return lambda: self.judge(job, job.processes, rf"^process {odd} has program ")

    def port(self):
        """The port is that of another service."""
        job = self.choose()
        self.victim = 0
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            job.port = listener.getsockname()[1]
            begin = time.monotonic()
            job.start()
            self.await_end(job, job.processes, begin)
        names = rf"port {job.port} (of this host is taken|is no process 0 of this job)"
        return lambda: self.judge(job, job.processes, names)

    def memory(self):
        """A process has not as much memory as it needs, anywhere from its start on."""
        job = self.choose()
        limit = int(self.bench.peaks[self.count] * self.draw.uniform(0.05, 0.7))
        job.limits = {self.victim: [(resource.RLIMIT_AS, limit)]}
        begin = time.monotonic()
        job.start()
        victim = job.processes[self.victim]
        survivors = [p for p in job.processes if p is not victim]
        if not job.wait(begin + self.bench.timeout * 2 + SLACK):
            raise Broken("a process goes on")
        lost = victim.ended if victim.child.returncode else max(p.ended for p in survivors)
        self.took = max(0.0, max(p.ended for p in survivors) - lost)
        if self.took > self.bench.timeout + SLACK:
            raise Broken(f"survivors go on for {self.took:.1f} s")
        return lambda: self.judge(job, survivors, self.names() + rf"|^process {self.victim} ")

    def disk(self):
        """The disk is full, under the timeline or under the values."""
        job = self.choose()
        self.victim = 0
        if self.draw.random() < 0.5:
            # More than the code of its kernels, which is written first.
            job.limits = {0: [(resource.RLIMIT_FSIZE, len(job.program.saved) - 4096)]}
            arguments, path = [], job.saved
        else:
            path = job.folder / "full"
            path.symlink_to("/dev/full")
            arguments = ["--trace", path]
        begin = time.monotonic()
        job.start(arguments=arguments)
        self.await_end(job, job.processes, begin + self.job.program.seconds[self.count])
        names = rf"cannot write '{re.escape(str(path))}"
        return lambda: self.judge(job, job.processes, names)

    def run(self):
        """Notes what was wrong, if something was."""
        try:
            check = getattr(self, self.kind)()
            self.job.check_none_left()
            check()
        except Broken as broken:
            self.wrong = str(broken)
        finally:
            self.job.end()


# Of each kind of harm, how many in a hundred; faults with a name are a fifth of all.
RANDOM = {"kill": 40, "stage": 10, "stop": 14, "pause": 12, "link": 14, "blink": 10}
ON_HOSTS = ("link", "blink")
NAMED = ("absent", "programs", "port", "memory", "disk", "nan")


def kinds_of(count, only, without_hosts):
    """What is done, in order: one of each kind, then by their shares."""
    random_kinds = [kind for kind in RANDOM if not (without_hosts and kind in ON_HOSTS)]
    drawn, named = ([k for k in of if not only or k in only] for of in (random_kinds, NAMED))
    kinds, others = [*drawn, *named], itertools.cycle(named or drawn)
    while kinds and len(kinds) < count:
        if drawn and len(kinds) % 5:
            kinds.append(min(drawn, key=lambda kind: kinds.count(kind) / RANDOM[kind]))
        else:
            kinds.append(next(others))
    return kinds[:count]


# What there has to be before


def run_unharmed(bench, program, count):
    job = Job(bench, program, count)
    begin = time.monotonic()
    job.start()
    while not job.processes[0].losses() and time.monotonic() < begin + 60:
        if job.wait(time.monotonic() + 0.005):
            break
    program.start[count] = time.monotonic() - begin
    ended = job.wait(begin + 60)
    job.end()
    if not ended or any(p.child.returncode for p in job.processes):
        raise SystemExit(f"faults: error: a job that nothing is done to fails: {job.folder}")
    if count == 1:
        program.losses, program.saved = job.processes[0].losses(), job.saved.read_bytes()
    else:
        job.check_success()
    program.seconds[count] = time.monotonic() - begin
    bench.peaks[count] = max(bench.peaks.get(count, 0), job.peak)


def prepare(folder, timeout):
    """(bench, why there are no hosts or None)"""
    programs = [
        compile_program(folder, name, name, mesh="data=4", plan="zero") for name in ("mlp", "gpt")
    ]
    programs.append(compile_pipeline(folder))
    bench = Bench(folder, timeout, programs, let_sleep(programs[-1]))
    for program in (*programs, bench.sleeping):
        for count in (1, 4) if program is bench.sleeping else (1, 2, 4):
            run_unharmed(bench, program, count)
    without = Hosts.missing()
    if not without:
        bench.hosts = Hosts(4)
    return bench, without


def run_all(bench, kinds, seed, report):
    """Each fault with what came of it."""
    for number, kind in enumerate(kinds):
        fault = Fault(bench, random.Random(f"{seed}/{number}"), kind)
        fault.run()
        report(
            f"{number + 1:3} {kind:8} {fault.count} processes, number {fault.victim} after {fault.moment:.2f} s:"
            f" {fault.took:.1f} s, {fault.wrong and 'WRONG: ' + fault.wrong or fault.said or 'nothing lost'}"
        )
        yield fault


def print_table(faults):
    print(f"\n{'fault':10}{'jobs':>6}{'lost':>6}{'wrong':>7}{'longest':>9}{'median':>9}")
    by_kind = defaultdict(list)
    for fault in faults:
        by_kind[fault.kind].append(fault)
    for kind, group in [*by_kind.items(), ("all", faults)]:
        times = sorted(fault.took for fault in group)
        print(
            f"{kind:10}{len(group):6}{sum(bool(f.said) for f in group):6}{sum(bool(f.wrong) for f in group):7}"
            f"{times[-1]:8.1f}s{times[len(times) // 2]:8.1f}s"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=[*RANDOM, *NAMED], default=())
    parser.add_argument("--timeout", type=float, default=3, help="TANDEM_TIMEOUT of the jobs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        bench, without = prepare(Path(folder), options.timeout)
        if without:
            print(f"skipped: {', '.join(ON_HOSTS)}: {without}", flush=True)
        kinds = kinds_of(options.count, options.only, without)
        faults = list(run_all(bench, kinds, options.seed, lambda line: print(line, flush=True)))
    print_table(faults)
    wrong = sum(bool(fault.wrong) for fault in faults)
    print(f"seed {options.seed}: {wrong} of {len(faults)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
