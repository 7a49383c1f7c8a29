"""Tables for the terminal, a chart for the documentation, figures to plot."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.compare import Measurement

Results = dict[str, list[Measurement]]
COLOURS = {
    "Penstock": "#2f6fed",
    "Penstock, pipelined": "#1b3f8b",
    "Flink SQL (JVM)": "#8a94a6",
    "PyFlink, process": "#e08a3c",
    "PyFlink, thread": "#f0b97d",
    "Bytewax": "#5fa55a",
    "Pathway": "#a3cf9f",
    "Spark Structured Streaming": "#b48ead",
}

console = Console(width=None if sys.stdout.isatty() else 120)


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def warn_if_busy() -> None:
    """Say so when something else is using the machine: the figures will be too low."""
    load = os.getloadavg()[0]
    if load > 0.5:
        console.print(
            f"[yellow]the machine is busy (load {load:.1f}): the figures will be too low[/]"
        )


def comparison_table(results: Results) -> Table:
    table = Table(title=f"Records per second ({machine()})")
    for column in ("job", "engine"):
        table.add_column(column)
    for column in ("records", "end to end", "Penstock is", "start-up", "without it", "Penstock is"):
        table.add_column(column, justify="right")
    for title, measurements in results.items():
        ours = next((m for m in measurements if m.engine == "Penstock"), None)
        for m in measurements:
            part = "" if m.records == m.of_records else f" of {m.of_records:,}"
            table.add_row(
                title if m is measurements[0] else "",
                m.engine,
                f"{m.records:,}{part}",
                f"{m.rate:,.0f}",
                _times(ours, m, ours.rate / m.rate) if ours else "",
                f"{m.start_up:.1f} s",
                "-" if m.steady_rate is None else f"{m.steady_rate:,.0f}",
                _times(ours, m, ours.steady_rate / m.steady_rate)
                if ours and ours.steady_rate and m.steady_rate
                else "",
                end_section=m is measurements[-1],
            )
    table.caption = (
        "End to end: all of execute(), the JVM being up. 'Penstock' runs in epochs, as bounded input does by itself. "
        "Others get a part of the data where the column "
        "'records' says so, as a run on all of it takes many minutes; start-up weighs more then, "
        "so the last two columns leave it out."
    )
    return table


def _times(ours: Measurement, other: Measurement, ratio: float) -> str:
    return "" if other is ours else f"{ratio:.1f}x"


def scaling_table(costs: dict[int, float]) -> Table:
    table = Table(title="Penstock: cost of a record as the input grows (windows, 100 keys)")
    table.add_column("records", justify="right")
    table.add_column("microseconds per record", justify="right")
    for records, cost in costs.items():
        table.add_row(f"{records:,}", f"{cost * 1e6:.2f}")
    return table


def cold_start_table(parts: dict[str, float]) -> Table:
    table = Table(
        title="Penstock: from `python job.py` to the end of a word count", show_footer=True
    )
    table.add_column("part", footer="all")
    table.add_column("seconds", justify="right", footer=f"{sum(parts.values()):.2f}")
    for part, seconds in parts.items():
        table.add_row(part, f"{seconds:.2f}")
    return table


def save(path: Path, **sections: Any) -> None:
    """Write the figures as JSON; parts that were not measured now are kept."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    figures = {name: plain(section) for name, section in sections.items()}
    path.write_text(json.dumps({**kept, "machine": machine(), **figures}, indent=2) + "\n")


def plain(section: Any) -> Any:
    """Return figures as JSON has them: measurements become dictionaries."""
    if is_dataclass(section) and not isinstance(section, type):
        return asdict(section)
    if isinstance(section, dict):
        return {name: plain(each) for name, each in section.items()}
    if isinstance(section, list):
        return [plain(each) for each in section]
    return section


def draw(results: Results, directory: Path) -> None:
    """Draw the comparison as bench.svg and bench.png.

    Start-up is left out where it could be told apart: PyFlink's part of the data is small, and it would weigh most there.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib import pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(8, 0.5 + 0.95 * len(results)))
    ticks: list[tuple[float, str]] = []
    rates: list[float] = []
    position = 0.0
    for title, measurements in results.items():
        ticks.append((position + (len(measurements) - 1) / 2, title))
        for m in measurements:
            rate = m.steady_rate or m.rate
            rates.append(rate)
            axes.barh(position, rate, color=COLOURS[m.engine], height=0.9)
            axes.text(rate * 1.06, position, f"{rate:,.0f}", va="center", fontsize=8)
            position += 1
        position += 0.8
    axes.set_xscale("log")
    axes.set_xlim(min(rates) / 3, max(rates) * 3)
    axes.set_yticks([place for place, _ in ticks], [title for _, title in ticks])
    axes.invert_yaxis()
    axes.set_xlabel("records per second once the job runs (logarithmic)")
    axes.spines[["top", "right"]].set_visible(False)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS.values()]
    axes.legend(
        handles,
        COLOURS,
        loc="lower center",
        bbox_to_anchor=(0.45, 1.0),
        ncols=4,
        fontsize=8,
        frameon=False,
    )
    figure.text(0.99, 0.01, machine(), ha="right", fontsize=6, color="#777777")
    figure.tight_layout()
    figure.savefig(directory / "bench.svg", metadata={"Date": None})
    figure.savefig(directory / "bench.png", dpi=160)
    plt.close(figure)
