"""What differs between two outcomes, and rows of a table that say so: changes.tsv, masks.tsv."""
import difflib
import re
from dataclasses import dataclass

class NoTable(Exception):
    """A table that cannot be read, and where."""


MANY = 4000  # lines that are compared one by one


@dataclass
class Difference:
    stream: str
    lost: list    # lines that the old program has alone
    gained: list  # and the new one

    def __str__(self):
        def first(lines):
            return (lines[0][:300] if lines else "(no line)") + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else "")
        return f"{self.stream}:\n    old: {first(self.lost)}\n    new: {first(self.gained)}"


def lines_of(data):
    """Lines of a text; of other bytes, one that says which they are."""
    if data is None:
        return ["(not written)"]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        at = "".join(f"{byte:02x}" for byte in data[:8])
        return [f"({len(data)} bytes that are no text, {at}…)"]
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines[:-1] + [lines[-1] + "(no end of line)"]


def of_lines(old, new):
    """The lines that one side has alone."""
    begin = 0
    while begin < min(len(old), len(new)) and old[begin] == new[begin]:
        begin += 1
    end = 0
    while end < min(len(old), len(new)) - begin and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[begin:len(old) - end], new[begin:len(new) - end]
    if len(old) + len(new) > MANY:
        return old, new
    lost, gained = [], []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            lost += old[i:j]
            gained += new[k:m]
    return lost, gained


def differences(old, new):
    """Of two outcomes' streams."""
    found = []
    for stream in [*old, *(name for name in new if name not in old)]:
        before, after = old.get(stream), new.get(stream)
        if before == after:
            continue
        lost, gained = of_lines(lines_of(before), lines_of(after))
        if not lost and not gained:  # other bytes of the same length and beginning
            lost, gained = lines_of(before), ["(other bytes)"]
        found.append(Difference(stream, lost, gained))
    return found


def rows_of(path, columns, last):
    """The rows of a table, each with its number; `last` is what its last column has."""
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != columns or not cells[-1]:
            raise NoTable(f"{path}:{number}: {columns} columns between tabs expected, the last one {last}; "
                          f"{len(cells)} found")
        yield number, cells


def read_table(path, columns):
    rows = []
    for number, cells in rows_of(path, columns, "a reason"):
        for cell in cells[:-1]:
            try:
                re.compile(cell)
            except re.error as error:
                raise NoTable(f"{path}:{number}: '{cell}' is no pattern: {error}")
        rows.append((number, *cells))
    return rows


class Words:
    """Rows: text that was, text that is; {} is anything, the same in both. Blanks and ends of lines count as one
    blank: help and notes are wrapped, tables have columns as wide as their texts."""

    def __init__(self, path):
        self.rows = []
        for _, cells in rows_of(path, 2, "the text that is"):
            was, now = (" ".join(cell.split()) for cell in cells)
            pieces = was.split("{}")
            pattern = re.compile("(.+?)".join(map(re.escape, pieces)))
            self.rows.append((max(pieces, key=len), pattern, now.split("{}")))

    def reworded(self, text):
        """The text in the new words."""
        def new_words(match, pieces):
            parts = match.groups()
            return "".join(piece + (parts[i] if i < len(parts) else "") for i, piece in enumerate(pieces))
        for literal, pattern, pieces in self.rows:
            if literal in text:
                text = pattern.sub(lambda match: new_words(match, pieces), text)
        return text

    def taken_out(self, difference):
        """What is left of a difference, and whether some of it is other words."""
        def flat(lines):
            return " ".join(" ".join(lines).split())
        if self.reworded(flat(difference.lost)) == flat(difference.gained):
            return Difference(difference.stream, [], []), True
        gained = {flat([line]): line for line in difference.gained}
        lost, found = [], set()
        for line in difference.lost:
            new = self.reworded(flat([line]))
            if new in gained and new != flat([line]):
                found.add(gained[new])
            else:
                lost.append(line)
        return Difference(difference.stream, lost, [line for line in difference.gained if line not in found]), bool(found)


class Changes:
    """Rows: command, stream, line that was, line that is, reason. A difference is known where each of its lines is
    that of a row for its command and stream."""

    def __init__(self, path, words):
        self.path, self.rows, self.words = path, read_table(path, 5), Words(words)
        self.used = {"words": 0, **{number: 0 for number, *_ in self.rows}}

    def explain(self, line, found):
        """The rows that explain all the differences of a command line; none where one is not explained. "words": a text
        that was reworded."""
        used = set()
        for difference in found:
            difference, reworded = self.words.taken_out(difference)
            if reworded:
                used.add("words")
            rows = [row for row in self.rows if re.search(row[1], line) and re.fullmatch(row[2], difference.stream)]
            for column, lines in ((3, difference.lost), (4, difference.gained)):
                for text in lines:
                    of = next((row[0] for row in rows if row[column] and re.fullmatch(row[column], text)), None)
                    if of is None:
                        return set()
                    used.add(of)
        return used

    def unused(self):
        return [row for row in self.rows if not self.used[row[0]]]


class Masks:
    """Rows: command, stream, what differs from run to run, reason. It is written as # before outcomes are compared."""

    def __init__(self, path):
        self.rows = [(re.compile(command), re.compile(stream), re.compile(what.encode()))
                     for _, command, stream, what, _ in read_table(path, 4)]

    def masked(self, line, streams):
        rows = [row for row in self.rows if row[0].search(line)]
        if not rows:
            return streams
        masked = {}
        for name, data in streams.items():
            for _, stream, what in rows:
                if stream.fullmatch(name):
                    data = what.sub(b"#", data)
            masked[name] = data
        return masked
