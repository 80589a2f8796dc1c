"""Small log-log panels as SVG, with nothing but text."""
import math
from dataclasses import dataclass

WIDTH, HEIGHT = 760, 560
LEFT, TOP, RIGHT, BOTTOM = 62, 34, 18, 44  # around each panel
TITLE = 30
COLOURS = ("#0b5cad", "#8a8f98")  # what it is about, what it is beside
INK, FAINT = "#30343b", "#e3e6ea"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass
class Panel:
    """Lines in one frame: [(name, [(x, y)])]; x are powers of two."""

    unit: str
    axis: str
    lines: list


def element(name, text=None, **attributes):
    inside = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f"<{name}{inside}/>" if text is None else f"<{name}{inside}>{text}</{name}>"


def label(value):
    """Of a power of ten."""
    power = round(math.log10(value))
    return f"{10.0**power:g}" if -3 <= power <= 4 else "10" + str(power).translate(SUPERSCRIPT)


def of_tokens(value):
    return f"{value // 1024}k" if value >= 1024 else str(value)


def draw(panel, left, top, width, height):
    xs = [x for _, line in panel.lines for x, _ in line]
    ys = [y for _, line in panel.lines for _, y in line]
    x_low, x_high = math.log2(min(xs)), math.log2(max(xs))
    y_low, y_high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def at(x, y):
        across = (math.log2(x) - x_low) / max(x_high - x_low, 1)
        up = (math.log10(y) - y_low) / max(y_high - y_low, 1)
        return left + across * width, top + height - up * height

    out = [element("text", panel.unit, x=left - 8, y=top - 12, text_anchor="end", fill=INK)]
    for power in range(y_low, y_high + 1):
        _, y = at(min(xs), 10.0**power)
        out.append(element("line", x1=left, x2=left + width, y1=f"{y:.1f}", y2=f"{y:.1f}", stroke=FAINT))
        out.append(element("text", label(10.0**power), x=left - 8, y=f"{y + 4:.1f}", text_anchor="end", fill=INK))
    for x in sorted(set(xs)):
        across, _ = at(x, min(ys))
        out.append(element("line", x1=f"{across:.1f}", x2=f"{across:.1f}", y1=top + height, y2=top + height + 4,
                           stroke=INK))
        out.append(element("text", of_tokens(x), x=f"{across:.1f}", y=top + height + 17, text_anchor="middle", fill=INK))
    out.append(element("line", x1=left, x2=left + width, y1=top + height, y2=top + height, stroke=INK))
    out.append(element("text", panel.axis, x=left + width / 2, y=top + height + 35, text_anchor="middle", fill=INK))

    for i, (name, line) in enumerate(panel.lines):
        points = [at(x, y) for x, y in line]
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = {"stroke_dasharray": "5 4"} if i else {}
        out.append(element("polyline", points=text, fill="none", stroke=COLOURS[i], stroke_width=2, **dashes))
        out += [element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=2.6, fill=COLOURS[i]) for x, y in points]
        # The legend, above: lines may run close to each other.
        x = left + 10 + i * (width / 2)
        out.append(element("line", x1=x, x2=x + 22, y1=top - 16, y2=top - 16, stroke=COLOURS[i], stroke_width=2, **dashes))
        out.append(element("text", name, x=x + 28, y=top - 12, fill=COLOURS[i] if i == 0 else INK))
    return out


def picture(title, panels):
    """Panels in two columns."""
    rows = (len(panels) + 1) // 2
    width, height = WIDTH / 2, (HEIGHT - TITLE) / rows
    out = [element("rect", width=WIDTH, height=HEIGHT, fill="#ffffff"),
           element("text", title.replace("`", ""), x=16, y=24, font_size=14, font_weight=600, fill=INK)]
    for i, panel in enumerate(panels):
        out += draw(panel, (i % 2) * width + LEFT, TITLE + (i // 2) * height + TOP, width - LEFT - RIGHT,
                    height - TOP - BOTTOM)
    inside = "\n".join(out)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'font-family="system-ui, sans-serif" font-size="11">\n{inside}\n</svg>\n')
