"""Four layers with a gradient each (`write`), what lies beside their sums in a timeline (`overlap`), and passes whose
collectives lie beside other passes (`beside`). Behind the paths of `write`: the width, and the rows of a batch."""

import json
import sys

LAYERS = 4
WIDTH, BATCH = (int(text) for text in sys.argv[4:6] or (64, 8))
ROUNDING = 1e-3  # us
SQUARE, ROWS = f"tensor<{WIDTH}x{WIDTH}xf64>", f"tensor<{BATCH}x{WIDTH}xf64>"


def product(result, lhs, rhs, kind, types):
    return f"  {result} = nn.matmul {lhs}, {rhs} {{nn.pass = #{kind}}} : ({types[0]}, {types[1]}) -> {types[2]}"


def write_step(path):
    """y = exp(x w) layer by layer; the loss is the sum of the last one; each parameter takes a thousandth of its gradient."""
    turned = f"tensor<{WIDTH}x{BATCH}xf64>"
    layers = range(LAYERS)
    lines = [f"#{name[0]} = #nn.pass<{name}>" for name in ("forward", "backward", "update")]
    arguments = [
        f'%x0: {ROWS} {{nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}}'
    ]
    arguments += [
        f'%w{i}: {SQUARE} {{nn.role = #nn.role<parameter>, nn.name = "w{i}"}}' for i in layers
    ]
    results = ['tensor<f64> {nn.role = #nn.role<loss>, nn.name = "loss"}']
    results += [
        f'{SQUARE} {{nn.role = #nn.role<parameter>, nn.name = "w{i}", nn.updates = {i + 1} : i64}}'
        for i in layers
    ]
    lines.append(f"func.func @step({', '.join(arguments)}) -> ({', '.join(results)}) {{")
    for i in layers:
        lines.append(product(f"%h{i}", f"%x{i}", f"%w{i}", "f", (ROWS, SQUARE, ROWS)))
        lines.append(f"  %x{i + 1} = nn.exp %h{i} {{nn.pass = #f}} : ({ROWS}) -> {ROWS}")
    last = f"%x{LAYERS}"
    lines.append(
        f"  %loss = nn.sum {last} {{dims = array<i64: 0, 1>, nn.pass = #f}} : ({ROWS}) -> tensor<f64>"
    )
    lines.append(f"  %g{LAYERS} = nn.constant dense<1.0e-3> : {ROWS} {{nn.pass = #b}} -> {ROWS}")
    for i in reversed(layers):
        lines.append(
            f"  %d{i} = nn.mul %g{i + 1}, %x{i + 1} {{nn.pass = #b}} : ({ROWS}, {ROWS}) -> {ROWS}"
        )
        turn = "{nn.pass = #b, permutation = array<i64: 1, 0>}"
        lines.append(f"  %t{i} = nn.permute %x{i} {turn} : ({ROWS}) -> {turned}")
        lines.append(product(f"%dw{i}", f"%t{i}", f"%d{i}", "b", (turned, ROWS, SQUARE)))
        if i > 0:
            lines.append(f"  %u{i} = nn.permute %w{i} {turn} : ({SQUARE}) -> {SQUARE}")
            lines.append(product(f"%g{i}", f"%d{i}", f"%u{i}", "b", (ROWS, SQUARE, ROWS)))
    for i in layers:
        lines.append(
            f"  %n{i} = nn.sub %w{i}, %dw{i} {{nn.pass = #u}} : ({SQUARE}, {SQUARE}) -> {SQUARE}"
        )
    values = ", ".join(["%loss", *(f"%n{i}" for i in layers)])
    lines += [f"  return {values} : {', '.join(['tensor<f64>', *[SQUARE] * LAYERS])}", "}"]
    path.write_text("\n".join(lines) + "\n")


def write_data(path):
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    values = {
        f"parameter/w{i}": torch.randn(WIDTH, WIDTH, dtype=torch.float64) / 64
        for i in range(LAYERS)
    }
    for batch in range(2):
        values[f"batch.{batch}/x"] = torch.randn(BATCH, WIDTH, dtype=torch.float64) / 8
    save_file(values, path)


def read_events(path):
    return [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]


def action(event):
    return event["name"].split(" ")[0]


def print_beside(path):
    """Of the first rank, pairs of a pass that communicates and another one that computes at the same time."""
    own = [event for event in read_events(path) if event["pid"] == 0]
    moving = [event for event in own if event["cat"] == "all_reduce" and action(event)[1] in "FIW"]
    pairs = {
        (action(one), action(other))
        for one in moving
        for other in own
        if other["tid"] == 0
        and action(other)[1:2] in ("F", "I", "W")
        and action(other) != action(one)
        and other["ts"] < one["ts"] + one["dur"] - ROUNDING
        and one["ts"] < other["ts"] + other["dur"] - ROUNDING
    }
    print(*(f"{one} beside {other}" for one, other in sorted(pairs)), sep="\n")


def print_overlap(path):
    """Of the first rank of each point, each sum, in the order of begins, and what it lies beside first."""
    events = read_events(path)
    for rank in (0, 2):
        own = sorted(
            (event for event in events if event["pid"] == rank), key=lambda event: event["ts"]
        )
        for sum_ in (event for event in own if action(event)[1:] == "S"):
            end = sum_["ts"] + sum_["dur"]
            beside = [
                action(event)
                for event in own
                if event["tid"] == 0
                and event["ts"] < end - ROUNDING
                and event["ts"] + event["dur"] > sum_["ts"] + ROUNDING
            ]
            passes = [name for name in beside if name[1:2] in ("F", "I", "W")]
            print("rank", rank, action(sum_), f"beside {passes[0]}" if passes else "alone")


if __name__ == "__main__":
    from pathlib import Path

    mode, *paths = sys.argv[1:]
    if mode == "write":
        write_step(Path(paths[0]))
        write_data(paths[1])
    else:
        {"overlap": print_overlap, "beside": print_beside}[mode](Path(paths[0]))
