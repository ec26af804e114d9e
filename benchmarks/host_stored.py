"""Of benchmarks/host_memory.py: parameters and states on the host (AxoNN, section V), the update beside the all-reduce and
the memory of 48 devices.
"""

import re

from harness import BUILD, ROOT, export, measure_process, simulate_seconds

MODEL = ROOT / "examples/gpt.py"
GPT = dict(layers=12, width=768, heads=12, seq=256, batch=8, dropout=0.0)
STORED = ["--pin", "parameter:layers.*:host", "--pin", "exp_avg*:host"]
# Two hosts of one device each.
CLUSTER = """name: hosts
kinds:
  device:
    rates:
      f32: {{peak: 8 TFLOP/s, efficiency: 0.6}}
      bf16: {{peak: 16 TFLOP/s, efficiency: 0.6}}
    memory: {{size: 16 GiB, bandwidth: 300 GB/s}}
    overhead: 5 us
nodes:
  - {{count: 2, devices: {{device: 1}}}}
link:
  node: {{latency: 10 us, bandwidth: 100 GB/s, per: device}}
  network: {{latency: 10 us, bandwidth: {network} GB/s, per: node}}
  host: {{latency: 10 us, bandwidth: {host} GB/s, per: device}}
interference: {{computation: 1, collective: 1}}
piece: 10 us
"""
# GB/s of the links to the host and of the network (Summit's, AxoNN section VI); no copy and no message takes time.
LINKS, NETWORK, ENDLESS = (16, 4, 64), 12.5, 1e9
# A bucket holds at most one part in so many of the bytes on the host; in the order of gradients, or the largest first.
SHARES = (1, 4, 16, 32, 64, 128, 256)
WITHIN, HIDDEN = 0.03, 0.9

# AxoNN, table I and section V-B: bytes of 48 devices with the optimizer on the host; without it, 520e9. Buckets have a size,
# as the fastest one takes more memory.
LEAST, SECONDS = 130e9, 60
AXONN = dict(layers=48, width=4512, heads=24, seq=512, vocab=51200, dropout=0.0)
MICROBATCHES = 24
# Points, replicas, layers of each point where they are not of equal FLOPs, and the limit of a device: the first of six points
# has the embedding, too, and all hold at most LEAST in sum.
LAYOUTS = {
    "pipe=24,data=2": (24, 2, None, None),
    "pipe=6,data=8": (6, 8, (5, 9, 9, 9, 9, 7), LEAST / 48),
}


def name_sections(sizes):
    """Globs of sections with so many layers."""
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    sections = [
        [f"layers.{i}" for i in range(end - size, end)]
        for end, size in zip(ends, sizes, strict=True)
    ]
    sections[0] += ["tokens", "positions"]
    sections[-1] += ["norm"]
    return ";".join(map(",".join, sections))


def name_sizes(sizes):
    return ",".join(f"{key}={value}" for key, value in sizes.items())


CHOICE = re.compile(r"walk over buckets of at most ([\d.]+ \w+)(, the largest first)?:")
STORED_BYTES = re.compile(r"holds \d+ bytes, and (\d+) on the host")


def schedule(duplexed, bytes, largest):
    """The Program of a step behind the stage `duplex`, whose updates walk over such buckets."""
    scheduled, program = duplexed.with_suffix(".scheduled"), duplexed.with_suffix(".tdm")
    flag = f"--tandem-schedule=bucket={bytes} largest-first={str(largest).lower()}"
    measure_process([BUILD / "bin/tandem-opt", duplexed, flag, "-o", scheduled])
    measure_process([BUILD / "bin/tandem-compile", scheduled, "--from", "schedule", "-o", program])
    return program


def compile_stored(step, cluster, *options):
    return measure_process(
        [BUILD / "bin/tandem-compile", step, "--mesh", "data=2", "--plan", "data-parallel"]
        + ["--accumulate", 2, *STORED, "--device", "sim", "--cluster", cluster, *options]
    )


def choose(step, cluster):
    """The planner's Program on this cluster, and its bucket as the remark says it."""
    program = step.with_suffix(".planned.tdm")
    said = compile_stored(step, cluster, "-o", program)["text"]
    size, largest = CHOICE.search(said).groups()
    return program, size + (largest or "")


def write_clusters(folder, link):
    clusters = {}
    for name, network, host in (
        ("both", NETWORK, link),
        ("update", ENDLESS, link),
        ("sum", NETWORK, ENDLESS),
        ("neither", ENDLESS, ENDLESS),
    ):
        clusters[name] = folder / f"{name}-{link}.yaml"
        clusters[name].write_text(CLUSTER.format(network=network, host=host))
    return clusters


def weigh(program, clusters):
    row = {name: simulate_seconds(program, path) for name, path in clusters.items()}
    update, summed = row["update"] - row["neither"], row["sum"] - row["neither"]
    row |= {"update_s": update, "sums_s": summed}
    row["hidden"] = (update + summed - (row["both"] - row["neither"])) / min(update, summed)
    return row


def measure_buckets(folder):
    """Seconds of a step by bucket and link. Each link has a row of the planner's choice first."""
    step = folder / "stored.mlir"
    export(MODEL, step, "--set", name_sizes(GPT))
    clusters = {link: write_clusters(folder, link) for link in LINKS}
    duplexed = step.with_name("duplexed.mlir")
    compile_stored(step, clusters[LINKS[0]]["both"], "--stop-after", "duplex", "-o", duplexed)
    rows = []
    for link in LINKS:
        program, said = choose(step, clusters[link]["both"])
        rows.append({"link": link, "bucket": said, "planned": True})
        rows[-1] |= weigh(program, clusters[link])
        text = measure_process([BUILD / "bin/tandem-run", program, "--print"])["text"]
        stored = int(STORED_BYTES.search(text)[1])
    for share in SHARES:
        for largest in (False, True):
            program = schedule(duplexed, stored // share, largest)
            for link in LINKS:
                row = {
                    "link": link,
                    "bucket": f"1/{share}" + (", the largest first" if largest else ""),
                }
                rows.append(row | {"planned": False} | weigh(program, clusters[link]))
    for row in sorted(rows, key=lambda row: row["link"]):
        print(f"{row['link']:>3} GB/s, bucket {row['bucket']}: step {row['both']:.4f} s, ", end="")
        print(f"update {row['update_s']:.4f} s, sums {row['sums_s']:.4f} s, ", end="")
        print(f"{row['hidden']:.1%} hidden", flush=True)
    return rows


def check_buckets(report, rows):
    for link in LINKS:
        own = [row for row in rows if row["link"] == link]
        planned, best = own[0], min(row["both"] for row in own[1:])
        report.limit(
            f"{link} GB/s, the planner's bucket",
            planned["both"] / best - 1,
            WITHIN,
            "above the best",
        )
        # Over a faster link the two take times of one order: printed, and not held to the target.
        if link > LINKS[0]:
            continue
        report.claim(
            f"{link} GB/s: {planned['hidden']:.1%} of the shorter of update and sums are hidden, "
            f"at least {HIDDEN:.0%}",
            planned["hidden"] >= HIDDEN,
            found=planned["hidden"],
            limit=HIDDEN,
        )


def get_bytes(program):
    """Of all ranks: what devices hold, and what lies on hosts."""
    text = measure_process([BUILD / "bin/tandem-run", program, "--print"])["text"]
    held = away = 0
    pattern = (
        r"(?m)^rank program \d+ of ranks([ \d]*), .* holds (\d+) bytes(?:, and (\d+) on the host)?$"
    )
    for ranks, own, pinned in re.findall(pattern, text):
        held += len(ranks.split()) * int(own)
        away += len(ranks.split()) * int(pinned or 0)
    return held, away


def measure_axonn(folder):
    """What is refused has no numbers, and the other layout is measured all the same."""
    rows = []
    for mesh, (points, replicas, layers, limit) in LAYOUTS.items():
        step, program = folder / "axonn.mlir", folder / "axonn.tdm"
        sizes = name_sizes(AXONN | {"batch": MICROBATCHES * replicas})
        types = ["--precision", "bf16", "--gradient-sums", "bf16"]
        export(MODEL, step, "--set", sizes, *types)
        measured = measure_process(
            [BUILD / "bin/tandem-compile", step, "--mesh", mesh, "--plan", "zero"]
            + ["--accumulate", MICROBATCHES, "--order", "1f1b"]
            + ["--sections", name_sections(layers) if layers else points]
            + (["--memory", int(limit)] if limit else [])
            + ["--bucket", "64MiB", "--pin", "layers.*:again"]
            + [*STORED, "--device", "sim", "-o", program],
            refused=re.compile("error: .*"),
        )
        row = {"mesh": mesh, "held_B": None, "away_B": None, "process_s": None, "cpu_s": None}
        if measured:
            row["held_B"], row["away_B"] = get_bytes(program)
            row |= {key: measured[key] for key in ("process_s", "cpu_s")}
            print(
                f"{mesh}: {row['held_B'] / 1e9:.1f} GB, {row['away_B'] / 1e9:.1f} GB on hosts; ",
                end="",
            )
            print(f"{row['cpu_s']:.1f} CPU s to compile", flush=True)
        else:
            print(f"{mesh}: refused", flush=True)
        rows.append(row)
    return rows


def check_axonn(report, rows):
    for row in rows:
        report.limit(f"{row['mesh']}, 48 devices", row["held_B"], LEAST, "B")
        report.limit(f"{row['mesh']}, compiled", row["cpu_s"], SECONDS, "CPU s")
