"""Part `recomputed`: layers in checkpoints, tensor-parallel, as in Oases (Li et al., 2023, sections 3.1 and 3.2)."""

from torch import nn
from torch.utils.checkpoint import checkpoint

from .hiding import NOISE, balance
from .steps import Model, draw

# (model, sizes), as in `hiding`.
CASES = (
    ("gpt", dict(layers=8, width=128, seq=256, batch=8)),
    ("bert_moe", dict(layers=8, width=128, hidden=512, seq=256, batch=8)),
)
PLAN, MICRO = "tensor-parallel", (2, 4)
OF_IDEAL, PREDICTED = 0.9, 0.075
# Of the computation of a checkpointed step a quarter is forward, and of its sums a half: the region's are not repeated.
FORWARD_COMPUTATION, FORWARD_COMMUNICATION = 1 / 4, 1 / 2


class Checkpointed(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *args):
        return checkpoint(self.layer, *args, use_reentrant=False)


class CheckpointedModel(Model):
    """An example whose layers are computed again in the backward pass."""

    def prepare(self, model):
        model.layers = nn.ModuleList(map(Checkpointed, model.layers))
        return model


def get_ideal(computation, communication):
    """Seconds of a step in which each pass hides all that it can: equation 3 without its ends."""
    forward = FORWARD_COMPUTATION * computation, FORWARD_COMMUNICATION * communication
    backward = computation - forward[0], communication - forward[1]
    return max(forward) + max(backward)


def measure_case(bed, model):
    found = balance(bed, model, PLAN, 1)
    serial, scale = found.serial, found.scale
    ideal = get_ideal(serial.computation, serial.communication)
    rows = []
    for plan in (PLAN, "searched"):
        for micro in (1, *MICRO):
            compiled = bed.compile(model, plan, micro, scale)
            measured = bed.measure(compiled, scale)
            rows.append(
                {
                    "model": model.name,
                    "plan": plan,
                    "micro": micro,
                    "predicted": compiled.cost,
                    "measured": measured.seconds,
                    "speed-up": serial.seconds / measured.seconds,
                    "ideal": serial.seconds / ideal,
                    "hidden": measured.hidden_of_smaller,
                }
            )
            print_row(rows[-1])
            if plan == PLAN and micro == MICRO[0]:
                trace = compiled.program.with_suffix("").name
                picture = bed.folder.parent / f"oases-{model.name}.svg"
                draw(bed.folder / f"{trace}.trace.json", picture)
    return rows


def print_row(row):
    print(
        f"{row['model']} {row['plan']}, micro {row['micro']}: measured {1e3 * row['measured']:.1f} ms, predicted"
        f" {1e3 * row['predicted']:.1f} ms; {row['speed-up']:.2f} times one strand without overlap, ideal"
        f" {row['ideal']:.2f}; {row['hidden']:.0%} of min(P, C) hidden",
        flush=True,
    )


def claim(report, name, rows):
    given = [row for row in rows if row["plan"] == PLAN]
    best = max(row["speed-up"] for row in given)
    ideal = rows[0]["ideal"]
    report.claim(
        f"{name}: {best:.2f} times as fast as in one strand without overlap, at least {OF_IDEAL} of {ideal:.2f}",
        best >= OF_IDEAL * ideal,
    )
    error = max(abs(row["predicted"] / row["measured"] - 1) for row in rows)
    report.claim(
        f"{name}: predicted within {error:.1%}, at most {PREDICTED:.1%}", error <= PREDICTED
    )
    searched = min(row["measured"] for row in rows if row["plan"] == "searched")
    least = min(row["measured"] for row in given)
    report.claim(f"{name}: the best searched plan is not slower", searched <= NOISE * least)


def measure(bed, report):
    for name, sizes in CASES:
        rows = measure_case(bed, CheckpointedModel(name, bed.folder, **sizes))
        report.add(f"recomputed, {name}", rows)
        claim(report, name, rows)
