"""The options of the planner, one list for all commands that compile."""

from ..base import options as table


def add_planner_arguments(parser):
    table.add_arguments(parser.add_argument_group("plan"), table.planning_rows())


def planner_options(options):
    """The keywords of `compile_module` for what the command line says."""
    return {row.name: getattr(options, row.name) for row in table.planning_rows()}
