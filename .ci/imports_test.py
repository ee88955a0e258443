"""The self-test of `.ci/imports`: it finds each fault in small crates, and none in sound ones."""
import tempfile
from pathlib import Path

TWO = "pub mod a; pub mod b;"
# What ties the files, the files below src/, and the circle that must be found.
CIRCLES = [
    (
        "a use on both sides",
        {"lib": TWO, "a": "use crate::b::B; pub struct A(B);", "b": "use crate::a::A; pub struct B(A);"},
        "a b",
    ),
    (
        "paths that begin with crate::",
        {"lib": TWO, "a": "pub fn a() { crate::b::b() }", "b": "pub fn b() { crate::a::a() }"},
        "a b",
    ),
    (
        "paths that begin with super::",
        {"lib": TWO, "a": "pub fn a() { super::b::b() }", "b": "pub fn b() { super::a::a() }"},
        "a b",
    ),
    (
        "a path that begins with self::",
        {"lib": "mod c; pub fn a() { self::c::c() }", "c": "pub fn c() { super::a() }"},
        "c lib",
    ),
    (
        "a path to a child module without self::",
        {"lib": "mod c; pub fn a() { c::c() }", "c": "use super::*; pub fn c() { a() }"},
        "c lib",
    ),
    (
        "paths through imported modules",
        {"lib": TWO, "a": "use crate::b; pub fn a() { b::b() }", "b": "use crate::a as x; pub fn b() { x::a() }"},
        "a b",
    ),
    (
        "a re-export by the parent module",
        {
            "lib": "mod f; mod c;",
            "f/mod": "mod a; mod b; pub use a::A; pub use b::*;",
            "f/a": "use super::B; pub struct A(B);",
            "f/b": "pub struct B; impl B { fn c(c: crate::c::C) {} }",
            "c": "use crate::f::A; pub struct C(A);",
        },
        "c f/a f/b",
    ),
    (
        "a nested use with a glob and renamed items",
        {
            "lib": "mod a; mod b { pub mod c; pub mod d; }",
            "a": "use crate::{b::{c::{self as x, C}, d::*}, self as _}; pub struct A; fn a(d: D) {}",
            "b/c": "pub struct C(crate::b::d::D);",
            "b/d": "use super::super::a::{A as B}; pub struct D(B);",
        },
        "a b/c b/d",
    ),
    (
        "a use in a block, beside strings and lifetimes",
        {
            "lib": TWO,
            "a": "pub fn a<'a>(c: &'a char) { if *c == '\"' || *c == '\\'' { use crate::b::B; B::new(r#\"\"\"#); } }",
            "b": "pub struct B; impl B { pub fn new(_: &str) { super::a::a(&'a') } }",
        },
        "a b",
    ),
    (
        "a #[path] attribute, and paths in serde attributes",
        {
            "lib": '#[path = "other.rs"] pub mod a; pub mod b;',
            "other": 'struct A { #[serde(with = "crate::b")] x: u8, #[serde(default = "crate::b::b")] y: u8 }',
            "b": "use crate::a::A; pub fn b(a: A) {}",
        },
        "b other",
    ),
    (
        "$crate in a macro",
        {"lib": "#[macro_use] mod a; mod b;", "a": "macro_rules! a { () => { $crate::b::B } }", "b": "struct B; a!();"},
        "a b",
    ),
]
# What must not count as a circle, and the files of a crate without one.
SOUND = [
    ("a dependency in one direction", {"lib": TWO, "a": "use crate::b::B; pub struct A(B);", "b": "pub struct B;"}),
    (
        "a parent module that only re-exports",
        {
            "lib": "mod f; mod c;",
            "f/mod": "mod a; mod b; pub use a::A; pub use b::B;",
            "f/a": "pub struct A;",
            "f/b": "use super::A; pub struct B(A);",
            "c": "use crate::f; pub struct C(f::A); impl C { fn b(_: crate::f::B) {} }",
        },
    ),
    (
        "names in tests, comments and strings",
        {
            "lib": TWO,
            "a": "use crate::b::B; pub struct A(B); #[cfg(test)] mod tests;",
            "a/tests": "use crate::b::make_a;",
            "b": "//! [`crate::a::A`]\n/* crate::a::A /* */ crate::a::A */\n"
            'pub struct B; const X: &str = "crate::a::A";\n'
            "#[cfg(test)] use crate::a::A;\n#[cfg(all(test, unix))]\nmod tests { use crate::a::A; }\n"
            "#[test] fn t() { crate::a::A; }\n#[cfg(test)] pub fn make_a() -> A { crate::a::A(B) }",
        },
    ),
    (
        "a path in pub(in ...)",
        {"lib": TWO, "a": "pub fn a() { crate::b::b() }", "b": "pub(in crate::b) fn x() {} pub fn b() {}"},
    ),
    (
        "paths into other crates",
        {"lib": TWO, "a": "use b::a; fn a() { ::b::a() }", "b": "use std::a; pub(crate) use log::log;"},
    ),
]
# A line of bloc-policy, and what of it belongs to a host.
HOSTS = [
    ("use std::time::{Duration, Instant};", "std::time::Instant"),
    ("use std::{fs as files, fmt};", "std::fs"),
    ("use std::time; fn a() { time::SystemTime::now(); }", "std::time::SystemTime::now"),
    ("fn a() { ::std::env::args(); }", "std::env::args"),
    ("use std::time::*;", "std::time::*"),
    ("use proxy_wasm::types::Action;", "proxy_wasm::types::Action"),
    ("use std::net::{SocketAddr, TcpStream};", "std::net::TcpStream"),
    ("use std::{net::SocketAddr, time::Duration}; #[cfg(test)] use std::fs;", None),
]
# The rows of a table in lib.rs, the files, and what is wrong.
A_USES_B = {"a": "use crate::b::B; pub struct A(B);", "b": "pub struct B;"}
ROWS = [
    (["[`a`]", "[`b`]"], A_USES_B, None),
    (["[`a`], [`b`]"], A_USES_B, None),
    (["[`b`]", "[`a`]"], A_USES_B, "small: a names B of b, a row above its own"),
    (["[`a`]"], A_USES_B, "small: src/lib.rs has b in 0 rows of its table"),
    (["[`a`]", "[`b`]", "[`b`]"], A_USES_B, "small: src/lib.rs has b in 2 rows of its table"),
    (["[`a`]", "[`b`]", "[`c`]"], A_USES_B, "small: src/lib.rs has c in 1 rows of its table"),
]


def package(folder, name, files, rest=""):
    """Writes a crate."""
    for file, text in files.items():
        path = folder / "src" / f"{file}.rs"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "Cargo.toml").write_text(f'[package]\nname = "{name}"\nedition = "2024"\n[workspace]\n{rest}\n')


def run(check):
    """The exit status: 0 if `check` finds what it must, and no more."""
    wrong = []

    def expect(name, files, first, crate="small", rest=""):
        with tempfile.TemporaryDirectory() as folder:
            package(Path(folder), crate, files, rest)
            lines = [line for line in check(folder) if not line.startswith(" ")]
        if lines != ([first] if first else []):
            wrong.append(f"{name}: expected {first}, got {lines}")

    for name, files, circle in CIRCLES:
        among = [f"src/{file}.rs" for file in circle.split()]
        expect(name, files, f"small: a circle of {len(among)} files: {', '.join(among)}")
    for name, files in SOUND:
        expect(name, files, None)
    for line, host in HOSTS:
        said = host and f"bloc-policy: src/lib.rs names {host}, which belongs to a host"
        expect(line, {"lib": line}, said, "bloc-policy")
        expect(f"{line} elsewhere", {"lib": line}, None)
    for rows, files, said in ROWS:
        table = "".join(f"//! | {row} | x |\n" for row in rows)
        lib = f"//! Each file imports only from rows below its own:\n{table}pub mod a;\nmod b;\n"
        expect(f"rows {rows}", {"lib": lib, **files}, said)
    many = {f"m{number:02}": "" for number in range(12)}
    table = "".join(f"pub mod {name};" for name in many)
    names = ", ".join(sorted(["lib.rs", *(f"{name}.rs" for name in many)]))
    expect("12 entries", {"lib": "", **dict(list(many.items())[1:])}, None, "bloc-policy")
    said = f"bloc-policy: src has 13 entries, at most 12: {names}"
    expect("13 entries", {"lib": table, **many}, said, "bloc-policy")
    compares = "use p::config::RoutingKind; pub fn a(b: RoutingKind) -> bool { b == RoutingKind::Mu }"
    said = "small: a.rs names RoutingKind::Mu, which belongs to routing"
    expect("a routing that is compared", {"lib": "mod a;", "a": compares}, said)
    expect("a routing that is configured", {"lib": "mod a;", "a": compares}, None, "bloc-mesh")
    rest = '[dependencies]\nserde = "1"\ntokio = "1"\n[dev-dependencies]\nwasmtime = "1"'
    expect("dependency", {"lib": ""}, "bloc-policy: Cargo.toml depends on tokio, which is not allowed", "bloc-policy", rest)
    print("\n".join(wrong) or "imports: the self-test passes")
    return 1 if wrong else 0
