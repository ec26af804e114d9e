"""Writes files that ended tools by a signal, for mistakes.test: `mistakes.py FOLDER`."""

import pathlib
import struct
import sys

MANY = 100_000


def modules():
    """Deeper in one another than the stack of a parser, each on its first line."""
    yield "deep", "module attributes {a = " + "[" * MANY
    yield "minus", "#m = affine_map<(d0) -> (" + "-" * MANY + "d0)>"
    yield "sum", "#m = affine_map<(d0) -> (" + "d0 + " * MANY + "d0)>"
    yield "types", "func.func private @f(" + "tuple<" * MANY
    yield "regions", "module {" * MANY
    yield "locations", "module {} loc(" + "fused[" * MANY
    yield "aliases", "#a0 = []\n" + "".join(f"#a{i + 1} = [#a{i}]\n" for i in range(MANY))
    twice = "".join(f"#a{i + 1} = [#a{i}, #a{i}]\n" for i in range(40))
    yield "doubled", f"#a0 = []\n{twice}module attributes {{other.x = #a40}} {{}}\n"
    text = (
        f'func.func private @f() attributes {{a = "{"[" * MANY}", b = affine_map<(d0) -> (d0 - 1)>,'
    )
    text += f" c = [{', '.join(['[-1]'] * MANY)}]}}\n// {'[' * MANY}\n"
    yield "flat", "#set = affine_set<(d0) : (d0 - 1 >= 0)>\n" + text


def steps():
    yield "large", step("1099511627776x1099511627776", "")
    yield "memory", step("100000000000", "")
    body = '%0 = nn.matmul %a, %b {nn.pass = #nn.pass<forward>} : (tensor<0x4xf32>, tensor<4x4xf32>) -> tensor<0x4xf32>'
    yield "zero", step("0x4", body, ', %b: tensor<4x4xf32> {nn.role = #nn.role<input>, nn.name = "b"}')


def step(shape, body, more=""):
    argument = f'%a: tensor<{shape}xf32> {{nn.role = #nn.role<input>, nn.name = "a"}}'
    return f"func.func @step({argument}{more}) {{\n  {body}\n  return\n}}\n"


def clusters():
    yield "deep", "[" * MANY
    yield "dashes", "- " * MANY
    yield "mappings", "name: a\nkinds:\n" + "".join(" " * i + "a:\n" for i in range(1, 1000))


def safetensors():
    yield "deep", "[" * MANY, b""
    entry = '{"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}'
    yield "twice", f'{{"a": {entry}, "b": {entry}}}', bytes(8)
    # 2^31 squared and squared again is 2^124.
    shape = ", ".join(["1073741824"] * 4)
    yield "huge", f'{{"a": {{"dtype": "F32", "shape": [{shape}], "data_offsets": [0, 0]}}}}', b""


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, text in [*modules(), *steps()]:
        (folder / f"{name}.mlir").write_text(text)
    for name, text in clusters():
        (folder / f"{name}.yaml").write_text(text)
    for name, header, data in safetensors():
        content = struct.pack("<Q", len(header)) + header.encode() + data
        (folder / f"{name}.safetensors").write_bytes(content)


if __name__ == "__main__":
    main()
