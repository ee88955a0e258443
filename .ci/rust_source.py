"""Reads the modules of a Rust target: what each defines, imports and names.

It reads tokens, not syntax, and braces give the scopes. What is compiled for tests only
(`#[cfg(test)]`, `#[test]`) is left out.
"""
from pathlib import Path

from rust_tokens import tokens

# What a module can define, and which of it can stand before a `::`.
TYPES = {"struct", "enum", "union", "trait"}
ITEMS = TYPES | {"type", "fn", "const", "static"}
# What ends at a semicolon even if it has braces.
STATEMENTS = {"use", "type", "const", "static", "let"}
CLOSING = {"(": ")", "[": "]", "{": "}"}


class Use:
    """One name of a `use`: its path, the name that it gets here (none: a glob)."""

    def __init__(self, path, alias):
        self.path, self.alias = path, alias


class Scope:
    """A block, or a module (its own `module`)."""

    def __init__(self, outer, module=None):
        self.outer, self.module = outer, module or self
        self.uses, self.paths, self.types, self.macros_used = [], [], set(), set()


class Module(Scope):
    """A module: `folder` is where the files of its children are."""

    def __init__(self, file, folder, parent=None):
        super().__init__(None)
        self.file, self.folder, self.parent = file, folder, parent
        self.root = parent.root if parent else self
        self.inline = False
        self.children, self.items, self.traits, self.macros = {}, set(), set(), set()
        # Every name in it, for what a glob brings in.
        self.names, self.scopes = set(), [self]

    def all(self):
        """It and all below it."""
        yield self
        for child in self.children.values():
            yield from child.all()


def load(file):
    """The root module of a target."""
    file = Path(file).resolve()
    root = Module(file, file.parent)
    Parser(tokens(file.read_text()), root).body(root)
    return root


class Parser:
    """Goes through the tokens of one file."""

    def __init__(self, found, module):
        self.tokens, self.at = found, 0
        self.file = module.file

    def peek(self, ahead=0):
        place = self.at + ahead
        return self.tokens[place] if 0 <= place < len(self.tokens) else ("end", "")

    def is_(self, text, ahead=0):
        kind, found = self.peek(ahead)
        return found == text and kind != "text"

    def body(self, scope):
        """All up to the brace that closes this scope."""
        path = None
        while self.peek()[0] != "end":
            kind, text = self.peek()
            if kind == "name":
                path = self.word(scope, text, path)
                continue
            inner = self.is_("!", 1)
            if self.is_("#") and self.is_("[", 2 if inner else 1):
                tests, new_path = self.attribute(scope)
                path = new_path or path
                if tests and inner:
                    self.skip_rest()
                elif tests:
                    self.skip_item()
                continue
            self.at += 1
            if kind == "sign" and text == "}":
                return
            if kind == "sign" and text == "{":
                self.block(Scope(scope, scope.module))

    def block(self, scope):
        scope.module.scopes.append(scope)
        self.body(scope)

    def word(self, scope, text, path):
        """A name, and what belongs to it."""
        module = scope.module
        following, name = self.peek(1)
        if text == "use" and (following == "name" or name in ("::", "{")):
            self.at += 1
            self.use_tree(scope, [])
            return None
        if text == "mod" and following == "name" and (self.is_(";", 2) or self.is_("{", 2)):
            self.module(scope, name, path)
            return None
        if text == "extern" and name == "crate":
            while self.peek()[0] != "end" and not self.is_(";"):
                self.at += 1
            return None
        if text == "pub" and self.is_("(", 1):
            # `pub(in a::b)` says who may see it, and needs nothing of a::b.
            self.at += 1
            self.group()
            return path
        if text == "macro_rules" and self.is_("!", 1):
            module.macros.add(self.peek(2)[1])
            self.at += 3
            return None
        if text in ITEMS and following == "name":
            self.item(scope, text, name)
        module.names.add(text)
        self.path(scope, text)
        return path if text in ("pub", "mod") else None

    def item(self, scope, kind, name):
        if kind == "const" and not self.is_(":", 2) or kind == "static" and name == "mut":
            name = self.peek(2)[1]
        if kind == "trait":
            scope.module.traits.add(name)
        if scope is scope.module:
            scope.items.add(name)
        elif kind in TYPES:
            scope.types.add(name)

    def path(self, scope, text):
        """`a::b::c`, or a name alone."""
        leading = self.is_("::", -1)
        # `<T>::a` is of a type.
        of_type = leading and (self.is_(">", -2) or self.is_("]", -2))
        segments = [text]
        self.at += 1
        while self.is_("::") and self.peek(1)[0] == "name":
            segments.append(self.peek(1)[1])
            scope.module.names.add(segments[-1])
            self.at += 2
        if self.is_("!") and not self.is_("=", 1) and len(segments) == 1:
            scope.macros_used.add(text)
        if leading and not of_type:
            segments.insert(0, "::")
        if len(segments) > 1 and not of_type:
            scope.paths.append(segments)

    def use_tree(self, scope, prefix):
        """One tree of a `use`, up to a comma, a brace or the semicolon."""
        path = list(prefix)
        # `::a` is a crate, never a module.
        if self.is_("::"):
            self.at += 1
            path = ["::"]
        while True:
            kind, text = self.peek()
            if text == "{" and kind == "sign":
                self.at += 1
                while not self.is_("}") and self.peek()[0] != "end":
                    self.use_tree(scope, path)
                    if self.is_(","):
                        self.at += 1
                self.at += 1
                return
            self.at += 1
            if text == "*":
                scope.uses.append(Use(path, None))
                return
            if kind != "name":
                # `use $x` in a macro: nobody knows what it is.
                return
            if not (text == "self" and path):
                path.append(text)
            if self.is_("::"):
                self.at += 1
                continue
            alias = path[-1]
            if self.is_("as"):
                alias = self.peek(1)[1]
                self.at += 2
            scope.uses.append(Use(path, alias))
            return

    def module(self, scope, name, path):
        """`mod name;` or `mod name { … }`."""
        parent = scope.module
        inline = self.is_("{", 2)
        self.at += 3
        if inline:
            child = Module(parent.file, parent.folder / name, parent)
            child.inline = True
            parent.children[name] = child
            self.body(child)
            return
        if path:
            file = (parent.folder if parent.inline else parent.file.parent) / path
            folder = file.parent
        else:
            file, folder = parent.folder / f"{name}.rs", parent.folder / name
            file = file if file.exists() else folder / "mod.rs"
        if not file.exists():
            raise SystemExit(f"{parent.file}: there is no file for mod {name}")
        child = Module(file.resolve(), folder, parent)
        inside = Parser(tokens(file.read_text()), child)
        inside.body(child)
        parent.children[name] = child

    def attribute(self, scope):
        """Whether it is for tests only, and the path that it gives to a module."""
        self.at += 2 if self.is_("!", 1) else 1
        inside = self.group()[1:-1]
        texts = [text for kind, text in inside]
        path = texts[2] if texts[:2] == ["path", "="] else None
        if texts[:1] == ["serde"]:
            # Names of functions and modules, which the derived code calls.
            for kind, text in inside:
                segments = text.split("::")
                if kind == "text" and len(segments) > 1 and all(map(str.isidentifier, segments)):
                    scope.paths.append(segments)
        inner = Parser([token for token in inside if token[0] != "text"], scope.module)
        while inner.peek()[0] != "end":
            kind, text = inner.peek()
            if kind == "name":
                scope.module.names.add(text)
                inner.path(scope, text)
            else:
                inner.at += 1
        return texts == ["test"] or texts[:1] == ["cfg"] and for_tests(texts[2:-1]), path

    def group(self):
        """The tokens of a group in brackets, these among them."""
        begin, depth = self.at, 0
        while self.peek()[0] != "end":
            kind, text = self.peek()
            if kind == "sign":
                depth += (text in CLOSING) - (text in CLOSING.values())
            self.at += 1
            if depth == 0:
                break
        return self.tokens[begin:self.at]

    def skip_rest(self):
        """The rest of a scope."""
        while self.peek()[0] != "end" and not self.is_("}"):
            if self.is_("{"):
                self.group()
            else:
                self.at += 1

    def skip_item(self):
        """What an attribute stands before: an item, a field, an arm of a match, a statement."""
        while self.is_("#") and self.is_("[", 1):
            self.at += 1
            self.group()
        if self.is_("pub"):
            self.at += 1
            if self.is_("("):
                self.group()
        kind, first = self.peek()
        whole = first in STATEMENTS and not self.is_("fn", 1)
        item = whole or first in ITEMS | {"impl", "mod", "macro_rules", "unsafe", "async", "extern"}
        while self.peek()[0] != "end" and not any(map(self.is_, CLOSING.values())):
            if any(map(self.is_, CLOSING)):
                brace = self.is_("{")
                self.group()
                if brace and not whole:
                    return
                continue
            self.at += 1
            if self.is_(";", -1) or not item and self.is_(",", -1):
                return


def for_tests(condition):
    """Whether a cfg holds in tests only: `test`, or `all(…)` with `test` directly in it."""
    if condition[:1] == ["all"]:
        depth, direct = 0, []
        for text in condition[2:-1]:
            depth += (text == "(") - (text == ")")
            direct.append(text if depth == 0 else "")
        return "test" in direct
    return condition == ["test"]
