"""The Python part of scripts/wheel-smoke.

wheel_smoke.py links FOLDER AT    link torch and its requirements, which lie at AT there
wheel_smoke.py train              train with the installed wheel, and check the origin of its libraries
"""

import importlib.metadata as metadata
import pathlib
import re
import sys

NEEDED = ("torch", "numpy", "safetensors")
# Where libraries may be from: the wheel and torch, and Debian's C and C++ libraries.
EXPECTED = re.compile(
    r"^/try/|/ld-linux-|/lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+|z|expat|ffi|ssl|crypto|lzma|bz2|uuid|nss_\w+)[.-]"
)


def requirements(name, found):
    """All packages that `name` needs, itself too, without extras."""
    if name in found:
        return
    found.add(name)
    for text in metadata.requires(name) or []:
        if "extra ==" in text:
            continue
        try:
            requirements(re.match(r"[\w.-]+", text)[0].lower(), found)
        except metadata.PackageNotFoundError:  # of another platform
            continue


def link(folder, at):
    found = set()
    for name in NEEDED:
        requirements(name, found)
    for name in sorted(found - {"setuptools"}):
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            continue
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            target = pathlib.Path(folder, top)
            if not target.is_symlink():
                target.symlink_to(pathlib.Path(at, top))


def train():
    import tandem
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
    twin = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
    twin.load_state_dict(model.state_dict())
    batch = torch.randn(32, 64)

    def loss_fn(model, batch):
        return (model(batch) - batch).square().mean()

    def optimizer_of(model):
        return torch.optim.AdamW(model.parameters(), lr=1e-3)

    step = tandem.compile(
        model, loss_fn, optimizer_of(model), batch, mesh={"data": 4}, plan="zero", micro=2
    )
    eager = optimizer_of(twin)
    for _ in range(5):
        loss = step(batch)
        eager.zero_grad()
        expected = loss_fn(twin, batch)
        expected.backward()
        eager.step()
        assert abs(loss.item() - expected.item()) < 1e-5, (loss, expected)
    step.save("/try/saved")
    step.load("/try/saved")
    step.save_program("/try/step.tdm")
    print(f"tandem {tandem.__version__} at {tandem.__file__}: loss {loss.item():.6f}")
    check_cuda(lambda: tandem.compile(model, loss_fn, optimizer_of(model), batch, device="cuda"))
    check_libraries()


def check_cuda(compile_step):
    """The device's library is the wheel's, and finds that there is no driver."""
    try:
        compile_step()
    except Exception as error:  # noqa: BLE001
        if "cannot load libcuda.so.1" in str(error):
            return
        raise


def check_libraries():
    maps = pathlib.Path("/proc/self/maps").read_text()
    for path in sorted(set(re.findall(r"(/\S+\.so\S*)", maps))):
        if not EXPECTED.search(path) and "/python3" not in path:
            raise SystemExit(
                f"{path} is loaded, expected libraries of the wheel, of torch and of Debian's C and C++"
            )


if __name__ == "__main__":
    link(*sys.argv[2:]) if sys.argv[1] == "links" else train()
