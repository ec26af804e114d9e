"""The command line: `python -m tandem COMMAND`. A command is a module of `tandem.commands`.

Each has `HELP`, `add_arguments(parser)` and `run(options)`, which returns an exit status or None
for 0; and `DETAILS`, if there is more to say.
"""

import argparse
import importlib
import pkgutil
import signal
import sys

from . import commands
from .errors import TandemError


def _modules():
    names = sorted(module.name for module in pkgutil.iter_modules(commands.__path__))
    return {
        name: importlib.import_module(f"{commands.__name__}.{name}")
        for name in names
        if name[0] != "_"
    }


class _Parser(argparse.ArgumentParser):
    """An error is one line, as all others; --help has the rest."""

    def error(self, message):
        self.exit(2, f"{self.prog.removeprefix('python -m ')}: error: {message}\n")


def _parser(modules):
    parser = _Parser(
        prog="python -m tandem", description="A graph compiler for distributed training."
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, module in modules.items():
        details = getattr(module, "DETAILS", None)
        module.add_arguments(
            subparsers.add_parser(name, help=module.HELP, description=module.HELP, epilog=details)
        )
    return parser


def _parse(modules, arguments):
    parser = _parser(modules)
    options = parser.parse_args(arguments)
    options.words = sys.argv[1:] if arguments is None else list(arguments)
    if options.command is None:
        parser.error(f"expected a command, one of {', '.join(modules)}; or --help")
    return options


def main(arguments=None):
    name = "tandem"
    try:
        modules = _modules()
        options = _parse(modules, arguments)
        name = f"tandem {options.command}"
        return modules[options.command].run(options) or 0
    except TandemError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        print(f"{name}: error: {file}{error.strerror or error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
