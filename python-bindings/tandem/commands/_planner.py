"""The options of the planner and of pipelines, one list for all commands that compile."""

from ..base import options as table


def _rows():
    return [*table.planning_rows(), *table.named_command_rows("sections", "order", "sum_piece")]


def add_planner_arguments(parser):
    table.add_arguments(parser.add_argument_group("plan"), _rows())


def planner_options(options):
    """The keywords of `compile_module` for what the command line says."""
    return {row.name: getattr(options, row.name) for row in _rows()}
