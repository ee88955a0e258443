#!/usr/bin/env python3
"""The test of `.ci/needs`: each target, on a PATH without one of its tools, says what is missing, why
and what to type, and does nothing else; and each `make TARGET` that a document names is there."""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEBIAN = "ID=debian" in Path("/etc/os-release").read_text().splitlines()
MAKEFILE = (ROOT / "Makefile").read_text()
# Why each tool is needed.
TABLE = {
    name: why
    for name, why, _ in (row.split("\t") for row in subprocess.check_output([ROOT / ".ci/needs", "--table"], text=True).splitlines())
}
# What is there on any Debian, besides make and git, and is no tool of the table.
PLAIN = "bash sh env make awk sed grep sort tr cat head dirname mkdir rmdir ln rm sleep touch paste timeout realpath".split()
# Programs of the farm when all is there: what they print and how they end. What would do work says
# that it has begun.
BEGIN = 'echo "$0 $*" >>"$BEGUN"; exit 1'
STUBS = {
    "cargo": f'case "$*" in *--version) ;; *) {BEGIN} ;; esac',
    "rustc": "echo rustc 9.9.9",
    "python3": "exit 0",
    "go": "echo go9.9.9",
    "id": "echo 0",
    "git": "exit 0",
    "unshare": "exit 0",
    "uname": 'case "$1" in -sm) echo Linux x86_64 ;; *) echo x86_64 ;; esac',
    "dpkg": "echo amd64",
}
for program in "rustup cc c++ wrk chromium chromedriver prometheus promtool ip iptables nft openssl curl apt-get apt-cache".split():
    STUBS[program] = BEGIN
APT = "apt-get update && {0}apt-get install -y --no-install-recommends {1}"
AS_ROOT = 'sudo -E env "PATH=$PATH" make {target}'
NO_ROOT = "a machine, or docker run --privileged"
GO = "curl -L https://go.dev/dl/go1.26.8.linux-amd64.tar.gz -o go.tar.gz && {0}rm -rf /usr/local/go && "
# How each tool is missing: programs that are gone (None) or answer otherwise; and what must be typed
# then. {0} is `sudo ` for an ordinary user; `apt PACKAGES` is the line of APT.
GONE = {
    "rust": ({"rustc": "echo rustc 1.63.0"}, "curl https://sh.rustup.rs -sSf | sh"),
    "clippy": ({"cargo": "exit 101"}, "rustup component add clippy rustfmt"),
    "cc": ({"cc": None}, "apt gcc libc6-dev"),
    "python3": ({"python3": None}, "apt python3 python3-venv"),
    "envoy": ({"python3": "exit 1"}, "apt python3 python3-venv"),
    "nextest": ({"python3": "exit 1"}, "apt python3 python3-venv"),
    "deny": ({"python3": "exit 1"}, "apt python3 python3-venv"),
    "wasm32": ({"rustup": None, "apt-get": None}, "apt cargo-web lld rust-web-src rustc-web"),
    "wrk": ({"wrk": None}, "apt wrk"),
    "c++": ({"c++": None}, "apt g++"),
    "chromium": ({"chromium": None}, "apt chromium chromium-driver"),
    "chromedriver": ({"chromedriver": None}, "apt chromium chromium-driver"),
    "prometheus": ({"prometheus": None}, "apt prometheus"),
    "promtool": ({"promtool": None}, "apt prometheus"),
    "ip": ({"ip": None}, "apt iproute2"),
    "iptables": ({"iptables": None}, "apt iptables"),
    "nft": ({"nft": None}, "apt nftables"),
    "openssl": ({"openssl": None}, "apt openssl"),
    "go": ({"go": "echo go1.25.9"}, GO),
    "go-kube": ({"go": None}, GO),
    "namespaces": ({"unshare": "exit 1"}, NO_ROOT),
    "root": ({"id": "echo 1000"}, AS_ROOT),
    "cgroups": ({"id": "echo 1000"}, AS_ROOT),
    "debian": ({"apt-cache": None}, 'docker run --rm -v "$PWD:$PWD" -w "$PWD" rust:bookworm make {target}'),
    "x86-64": ({"uname": "echo Linux aarch64"}, "another machine"),
}


def targets():
    """The targets, with what each depends on and what follows `##`."""
    found = re.findall(r"^([a-z0-9-]+):([^#\n]*)## (.*)$", MAKEFILE, re.M)
    return {name: (before.split(), [part.strip() for part in said.split("|")]) for name, before, said in found}


TARGETS = targets()


def tools(target):
    """Its own and those of the targets before it."""
    before, said = TARGETS[target]
    return [tool for other in before if other in TARGETS for tool in tools(other)] + said[2].split()


def farm(folder, gone):
    """A folder with the plain programs and stubs of all tools, but for those that are gone."""
    folder.mkdir()
    for program in PLAIN:
        if program not in STUBS:
            (folder / program).symlink_to(shutil.which(program))
    for program, script in (STUBS | gone).items():
        if script is not None:
            (folder / program).write_text(f"#!/bin/sh\n{script}\n")
            (folder / program).chmod(0o755)


def run(work, gone, command):
    """Its exit status and output, and whether any tool was started to do work."""
    number = len(list(work.iterdir()))
    folder, begun = work / f"bin{number}", work / f"begun{number}"
    farm(folder, gone)
    # Nothing that this machine has, but its tools, decides.
    environment = {
        "PATH": str(folder),
        "BEGUN": str(begun),
        "BLOC_SBIN": "",
        "CARGO_TARGET_DIR": str(work / "target"),
        "BLOC_CACHE": str(work / "cache"),
        "BLOC_QEMU_KEPT": str(work / "qemu"),
        "HOME": str(work),
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr, begun.exists()


def check_target(work, target):
    code, said, _ = run(work, {}, [ROOT / ".ci/needs", target])
    assert (code, said) == (0, ""), f"{target}, nothing missing: {code}\n{said}"
    for tool in dict.fromkeys(tools(target)):
        name = tool.rstrip("?")
        gone, line = GONE[name]
        if name in ("wasm32", "chromium", "chromedriver", "debian") and not DEBIAN:
            continue
        for sudo in ("", "sudo "):
            # An ordinary user, where that is not what is missing, and where root is not needed.
            if sudo and (set(tools(target)) | {name}) & {"root", "cgroups", "cgroups?", "namespaces"}:
                continue
            code, said, begun = run(work, ({"id": "echo 1000"} if sudo else {}) | gone, ["make", target])
            case = f"make {target} without {name}: status {code}\n{said}began: {begun}"
            typed = APT.format(sudo, line.removeprefix("apt ")) if line.startswith("apt ") else line.format(sudo, target=target)
            # With it missing, others may be: packages of one line.
            packages = line.startswith("apt ") and set(line.split()[1:])
            lines = [text.strip() for text in said.splitlines()]
            assert any(text.startswith(sudo + APT.split(" && ")[0]) and packages <= set(text.split()) if packages else text.startswith(typed) for text in lines), case
            if tool.endswith("?"):
                assert "leaves out what needs" in said, case
            else:
                assert code != 0 and not begun, case
                assert f"make {target}: nothing was run. Missing:" in lines, case
                assert f"{name.removesuffix('-kube')}: {TABLE[name]}" in lines, case


def check_documents():
    """Each command that a document or a message names."""
    files = subprocess.check_output(["git", "ls-files", "*.md", "*.rs", "*.sh", ".ci/*"], cwd=ROOT, text=True).split()
    for file in files:
        path = ROOT / file
        if file in ("CHANGELOG.md", ".ci/needs_test.py") or file.startswith(".ci/mutants.d") or not path.exists():
            continue
        text = path.read_text()
        named = re.findall(r"`(?:sudo -E )?make ([^`\n]*)`", text)
        if file.endswith(".md"):
            named += re.findall(r"^(?:sudo -E )?make ([^#\n]*)", "\n".join(re.findall(r"^```.*?^```", text, re.M | re.S)), re.M)
        for words in named:
            for word in re.split(r" && ", words)[0].split():
                if re.fullmatch(r"[a-z][a-z0-9-]*", word):
                    assert word in TARGETS or word == "help", f"{file}: make {word} is no target"


def main():
    used = {tool.rstrip("?") for target in TARGETS for tool in tools(target)}
    assert TABLE.keys() == used, f"only in .ci/needs, or only in the Makefile: {TABLE.keys() ^ used}"
    for target, (before, said) in TARGETS.items():
        assert before[:1] == ["needs"], f"{target} does not look for its tools first"
        assert len(said) == 4 and said[0] in ("use", "test", "measure", "develop") and said[1], f"{target}: {said}"
    check_documents()
    with tempfile.TemporaryDirectory() as folder:
        for target in TARGETS:
            check_target(Path(folder), target)


main()
