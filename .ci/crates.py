"""Compiled crates for a second source tree."""
import os
import shutil


def take(source, target):
    """Takes crates of registries only. Cargo gives a crate of ours the same file names in both
    trees, so it would write through a link into the source. Small files, which it may write again,
    are copied."""
    if target.is_dir() or not (source / ".fingerprint").is_dir():
        return
    units = set()
    for part in (".fingerprint", "build"):
        for folder in (source / part).iterdir() if (source / part).is_dir() else []:
            if folder.is_dir() and not folder.name.startswith("bloc-"):
                shutil.copytree(folder, target / part / folder.name)
                units.add(folder.name.rpartition("-")[2])
    (target / "deps").mkdir()
    for file in (source / "deps").iterdir():
        # Such as libserde-0123456789abcdef.rlib.
        if file.name.split(".")[0].rpartition("-")[2] in units:
            os.link(file, target / "deps" / file.name)
