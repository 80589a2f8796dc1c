"""Tables: printed as they are made, and put into their places in docs/performance.md."""
import os
import re
import statistics


def duration(seconds):
    """Three digits: 7.31 ms, 0.512 s."""
    if seconds < 0.1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:.0f} s"


def size(count):
    """Bytes, as a person says it: 4.0 GiB."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            value = count / scale
            return f"{value:.0f} {unit}" if value >= 99.5 else f"{value:.3g} {unit}"
    return f"{count:.0f} bytes"


def ratio(values):
    """Of all rounds: 1.42× (1.38–1.47)."""
    def text(value):
        return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"

    middle = text(statistics.median(values)) + "×"
    return middle if len(values) == 1 else f"{middle} ({text(min(values))}–{text(max(values))})"


def share(values):
    """Of all rounds: 84 % (81–86)."""
    middle = f"{100 * statistics.median(values):.0f} %"
    return middle if len(values) == 1 else f"{middle} ({100 * min(values):.0f}–{100 * max(values):.0f})"


def aim(text, holds):
    """A target, and whether it is met."""
    return f"{text} {'✓' if holds else '✗'}"


class Page:
    """The page's places are marked `<!-- peers:NAME -->` … `<!-- /peers:NAME -->`."""

    def __init__(self, path):
        self.path = path
        self.blocks = {}

    def table(self, name, title, rows, heading, note=None):
        """Prints a table and keeps it for its place; tables of one name follow each other. The first column is
        text, the others are numbers."""
        rows = [[str(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(heading, *rows)]
        lines = [f"**{title}**", ""] if title else []
        aligned = ["left"] + ["left" if len(heading) == 2 else "right"] * (len(heading) - 1)

        def line(cells):
            padded = (c.ljust(w) if side == "left" else c.rjust(w) for c, w, side in zip(cells, widths, aligned))
            return "| " + " | ".join(padded) + " |"

        rule = "|".join("-" * (w + 2) if side == "left" else "-" * (w + 1) + ":" for w, side in zip(widths, aligned))
        lines += [line(heading), f"|{rule}|", *map(line, rows)]
        lines += ["", note] if note else []
        block = "\n".join(lines)
        print(f"\n{block}", flush=True)
        self.blocks.setdefault(name, []).append(block)

    def picture(self, name, svg):
        """Writes docs/pictures/NAME.svg when the page is written."""
        self.blocks[f"picture:{name}"] = [svg]

    def write(self):
        with open(self.path, encoding="utf-8") as file:
            text = file.read()
        for name, blocks in self.blocks.items():
            if name.startswith("picture:"):
                path = os.path.join(os.path.dirname(self.path), "pictures", name[8:] + ".svg")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(blocks[0])
                continue
            place = re.compile(rf"(<!-- peers:{name} -->\n).*?(<!-- /peers:{name} -->)", re.DOTALL)
            if not place.search(text):
                raise SystemExit(f"{self.path}: no place marked peers:{name}")
            text = place.sub(lambda mark, block="\n\n".join(blocks): f"{mark[1]}{block}\n{mark[2]}", text)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)
