"""The numbers on a page of documentation, and which of them a checked text accounts for."""

import re

SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.S | re.M)
NUMBER = re.compile(
    rf"(?<![\w.,/·^#-])(?:"
    rf"\d[\d,]*(?:\.\d+)?e[+-]?\d+"  # 3.4e-3
    rf"|(?:\d+(?:\.\d+)?·)?10[{SUPERSCRIPTS}]+"  # 5·10⁻³
    r"|\d[\d,]*\.\d+"  # 0.055
    r"|\d{1,3}(?:,\d{3})+"  # 2,048
    r"|\d{3,}"  # 188
    r"|(?<=N = )\d+"  # N = 43
    r"|\d+(?=(?: times| %| ×| s\b| min\b| samples\b))"  # 47 times, 40 %, 64 s
    r")(?![\w]|\.\d)"
)


def flat(text):
    """In one line, so that a sentence is found however it is wrapped."""
    return " ".join(text.split())


def prose(text):
    """A page in one line: no code but the comments of commands, no code in a line, no addresses."""
    text = FENCE.sub(lambda block: "\n".join(re.findall(r"#.*$", block[3], re.M)) if block[2] == "sh" else "", text)
    text = re.sub(r"(?<=\n\n)(?: {4}.*\n)+(?=\n)", "", text)
    text = re.sub(r"`[^`]*`", "``", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return flat(text)


def bare(text):
    """A checked text as `prose` would show it."""
    return flat(re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "``", text)))


def numbers(text):
    """(start, end, number) of every number of `prose`."""
    return [(found.start(), found.end(), found[0]) for found in NUMBER.finditer(text)]


def spans(text, fragment):
    """Where a text stands on a page."""
    return [(found.start(), found.end()) for found in re.finditer(re.escape(bare(fragment)), text)]


def uncovered(text, fragments):
    """[(number, what stands before it, what stands behind it)] of the numbers outside all of these texts."""
    covered = [span for fragment in fragments for span in spans(text, fragment)]
    return [
        (number, text[max(start - 40, 0) : start], text[end : end + 25])
        for start, end, number in numbers(text)
        if not any(low <= start and end <= high for low, high in covered)
    ]
