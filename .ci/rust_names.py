"""Finds the file that defines what a path of a Rust module names."""


class Item:
    """Something in a file: a type, a function, a constant."""

    def __init__(self, file, name):
        self.file, self.name = file, name


class External:
    """A path into another crate."""

    def __init__(self, path):
        self.path = path


class Names:
    """The names of one target; `library` is the root of the package's library, by its name."""

    def __init__(self, root, library_name=None, library=None):
        self.root, self.library_name, self.library = root, library_name, library
        self.macros = {}
        for module in root.all():
            for name in module.macros:
                self.macros.setdefault(name, module)

    def ties(self):
        """All that any file names: the file, and an Item or External."""
        for module in self.root.all():
            for scope in module.scopes:
                for use in scope.uses:
                    glob = use.alias is None
                    found = self.glob(use, scope) if glob else self.use(use, scope, frozenset())
                    yield from ((module.file, one) for one in found)
                for path in scope.paths:
                    found = self.resolve(path, scope, frozenset())
                    yield from ((module.file, one) for one in found)
                for name in scope.macros_used - module.macros:
                    if name in self.macros:
                        yield module.file, Item(self.macros[name].file, f"{name}!")

    def use(self, use, scope, seen):
        """What a `use` brings in."""
        return [] if use in seen else self.resolve(use.path, scope, seen | {use})

    def glob(self, use, scope):
        """What of a glob is named in the module; traits are needed without a name."""
        for found in self.use(use, scope, frozenset()):
            if isinstance(found, (Item, External)):
                yield External(found.path + ["*"]) if isinstance(found, External) else found
                continue
            offered = found.items | set(found.children)
            offered |= {one.alias for one in found.uses if one.alias}
            wanted = offered & (scope.module.names | found.traits)
            for name in wanted:
                yield from self.member(found, name, frozenset({use}))

    def resolve(self, path, scope, seen):
        """Modules, Items and Externals that a path may mean; an item of a type is the type."""
        found = self.first(path[0], scope, seen)
        for segment in path[1:]:
            ahead, modules = [], False
            for one in found:
                if isinstance(one, External):
                    ahead.append(External(one.path + [segment]))
                elif isinstance(one, Item):
                    ahead.append(one)
                elif segment == "super":
                    ahead.append(one.parent or one)
                elif segment == "self":
                    ahead.append(one)
                else:
                    members = self.member(one, segment, seen)
                    modules = modules or bool(members)
                    ahead.extend(members or [Item(one.file, segment)])
            # `a::b` is not of a function a if there is a module a with a b.
            if modules:
                ahead = [new for new in ahead if not (isinstance(new, Item) and new in found)]
            found = ahead
        return found

    def first(self, name, scope, seen):
        """What the first name of a path means here."""
        module = scope.module
        if name == "crate":
            return [module.root]
        if name == "self":
            return [module]
        if name == "super":
            return [module.parent or module]
        if name == "Self":
            return []
        if name == "::":
            return [External([])]
        while scope is not module:
            if name in scope.types:
                return [Item(module.file, name)]
            found = self.imported(scope, name, seen)
            if found:
                return found
            scope = scope.outer
        found = self.member(module, name, seen)
        if not found and name == self.library_name and module.root is not self.library:
            found = [self.library]
        return found or [External([name])]

    def member(self, module, name, seen):
        """What a name means in a module."""
        found = []
        if name in module.children:
            found.append(module.children[name])
        if name in module.items or name in module.macros:
            found.append(Item(module.file, name))
        if not found and module is self.root and name in self.macros:
            # #[macro_export] puts a macro here.
            found.append(Item(self.macros[name].file, name))
        imported = self.imported(module, name, seen)
        return found + [one for one in imported if one not in found]

    def imported(self, scope, name, seen):
        """What the `use`s of a scope make of a name."""
        found = []
        for use in scope.uses:
            if use.alias == name:
                found.extend(self.use(use, scope, seen))
        if not found:
            for use in scope.uses:
                if use.alias is None:
                    modules = self.use(use, scope, seen)
                    for one in modules:
                        if not isinstance(one, (Item, External)):
                            found.extend(self.member(one, name, seen | {use}))
        return found
