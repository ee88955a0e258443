"""Cuts Rust into tokens: comments are left out, strings and lifetimes stand out of the way."""
import re

TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*)
    | (?P<comment>/\*)
    | (?P<raw>[bc]?r(?P<hashes>\#*)".*?"(?P=hashes))
    | (?P<text>[bc]?"(?:[^"\\]|\\.)*")
    | (?P<char>b?'(?:[^'\\\n]|\\(?:u\{[^}]*\}|x..|.))')
    | (?P<lifetime>'[^\W\d]\w*)
    | (?P<name>(?:r\#)?[^\W\d]\w*)
    | (?P<number>\d\w*(?:\.\d\w*)?)
    | (?P<sign>::|.)
    """,
    re.S | re.X,
)


def tokens(source):
    """The tokens as pairs of kind and text, without spaces and comments."""
    found, at = [], 0
    while match := TOKEN.match(source, at):
        kind, at = match.lastgroup, match.end()
        if kind == "comment":
            at = after_comment(source, at)
        elif kind == "hashes" or kind == "raw":
            found.append(("text", match["raw"].split('"', 1)[1].rsplit('"', 1)[0]))
        elif kind == "text":
            found.append((kind, match[0].split('"', 1)[1][:-1]))
        elif kind != "space":
            found.append((kind, match[0].removeprefix("r#") if kind == "name" else match[0]))
    return found


def after_comment(source, at):
    """Where a block comment ends; they nest."""
    depth = 1
    for match in re.compile(r"/\*|\*/").finditer(source, at):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(source)
