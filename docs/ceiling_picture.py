"""Make ``docs/images/ceiling.png``: pass rates on SummEval against what one expert and the crowd pass.

    python docs/ceiling_picture.py RESULTS    # a folder with a run of nnd_summeval, such as that of SmolLM2

The published rates are those of ``benchmarks/published_runs.yaml``. Models' rates are of the published tests.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from matplotlib.figure import Figure

from nnd_tasks.ceiling.ceiling import LEFT_OUT, human_ceiling
from nnd_tasks.figures.lines import COLOURS, MARKERS
from nnd_tasks.results.compare import category_rates
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.show.forms import write_figure

ROOT = Path(__file__).resolve().parent.parent
CATEGORIES = ["all", "coherence", "consistency", "fluency", "relevance"]


def main() -> None:
    """Draw a column per category."""
    published = yaml.safe_load((ROOT / "benchmarks" / "published_runs.yaml").read_text("utf-8"))["summeval"]["models"]
    models = {f"{one['name']} (NND paper)": one["rates"] for one in published}
    for paired in pair(read_results([Path(path) for path in sys.argv[1:]])):
        for model, rates in category_rates(paired).groupby("model"):
            models[str(model)] = rates.set_index("category")["rate"].to_dict()
    people = human_ceiling("summeval").rates
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    for judged_by, name, colour in ((LEFT_OUT, "one expert, left out", "black"), ("crowd", "the crowd", "#777777")):
        rates = people[(people["panel"] == "experts") & (people["judged_by"] == judged_by)].set_index("category")
        for place, category in enumerate(CATEGORIES):
            rate = rates.loc[category]
            axes.fill_between(
                [place - 0.4, place + 0.4], rate["low"], rate["high"], color=colour, alpha=0.15, linewidth=0
            )
            label = name if place == 0 else None
            axes.plot([place - 0.4, place + 0.4], [rate["ceiling"]] * 2, color=colour, linewidth=2.5, label=label)
    for number, (model, rates) in enumerate(models.items()):
        places = [place + 0.15 * (number - (len(models) - 1) / 2) for place in range(len(CATEGORIES))]
        axes.plot(places, [rates[name] for name in CATEGORIES], MARKERS[number], color=COLOURS[number], label=model)
    axes.axhline(0.5, color="#777777", linewidth=1, linestyle=(0, (2, 2)), label="chance (0.5)")
    axes.set(ylabel="pass rate (share of tests)", title="SummEval: models against people", ylim=(0.4, 0.9))
    axes.set_xticks(range(len(CATEGORIES)), CATEGORIES)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    (ROOT / "docs" / "images" / "ceiling.png").write_bytes(write_figure(figure, "png"))


if __name__ == "__main__":
    main()
