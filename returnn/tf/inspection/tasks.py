"""The tasks `check` and `explain` of the command line."""

from __future__ import annotations

import contextlib
import sys

from rich.console import Console

from returnn.config import Config
from returnn.engine.data import describe_data
from returnn.engine.report.check_result import report_result
from returnn.log import log
from returnn.tf.inspection.config_check import ConfigReport, check_config, for_search, net_dicts_by_epoch
from returnn.tf.inspection.drawing import drawn_network
from returnn.tf.inspection.loop_text import loop_text
from returnn.tf.inspection.picture import write_picture
from returnn.tf.inspection.report import NetReport, inspect_network
from returnn.tf.inspection.table import print_table, table_text
from returnn.util.errors import ConfigError, UserError
from returnn.util.system.terminal import is_tty
from returnn.util.texts.counted import counted


def check(config: Config) -> None:
    """
    Looks for errors, and shows the network as a table. No graph is made. Data sets are opened, to see whether they fit;
    `check_data = False` leaves them out.

    :raises ConfigError: if there are errors, so that the exit status says so
    """
    with contextlib.suppress(UserError):  # about a data set, which the check finds as well
        describe_data(config)
    report = check_config(config)
    _show_networks(report)
    for warning in report.warnings:
        log.print_warning(warning)
    for hint in report.hints:
        print(f"hint: {hint}", file=log.v1)
    seconds = ", ".join(f"{what} {s:.1f} s" for what, s in report.seconds.items())
    report_result(f"{', '.join(report.looked_at)} ({seconds})", report.errors)


def explain(config: Config) -> None:
    """
    Says how each loop is compiled. With `explain_file` (.svg or .png), it draws the network. `explain_mode` is
    "training" or "search".

    :raises ConfigError: if there is an error in the network
    """
    mode = config.options.explain_mode
    describe_data(config)
    report = _network_to_explain(config, mode)
    loops = [found.loop for found in report.layers if found.loop is not None]
    for loop in loops:
        print(loop_text(loop), file=log.v1)
        print(file=log.v1)
    if not loops and not report.errors:
        print(
            f"there are no loops: each of the {counted(len(report.layers), 'layer')} sees all frames at once",
            file=log.v1,
        )
    if config.options.explain_file:
        write_picture(drawn_network(report.layers, title=report.title), config.options.explain_file)
        print(f"drawn: {config.options.explain_file}", file=log.v1)
    else:
        print("'++explain_file net.svg' draws the network", file=log.v1)
    if report.errors:
        raise ConfigError(f"{report.errors[0]}\n  This part is left out. '++task check' lists all errors.")


def _network_to_explain(config: Config, mode: str) -> NetReport:
    net_dict = list(net_dicts_by_epoch(config).values())[-1]
    is_search = mode == "search"
    net_dict = for_search(net_dict, config) if is_search else net_dict
    return inspect_network(net_dict, config, title=f"network for {mode}", is_search=is_search)


def _show_networks(report: ConfigReport) -> None:
    """Shows the network in full that the last epoch has, and what is different there in search."""
    shown: set[object] = set()
    for network in report.last_networks:
        rows = [row for row in network.rows if row not in shown]
        shown.update(rows)
        title = network.title if len(rows) == len(network.rows) else f"{network.title}: what is different there"
        if not rows:
            continue
        if is_tty():
            print_table(network, rows, title, Console(file=sys.stdout))
        else:
            print(table_text(network, rows, title), file=log.v1)
