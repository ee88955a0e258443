//! What needs the system's help: a network namespace of our own, packets that get lost or come late in it, and a clock that jumps.
//!
//! A namespace needs root and util-linux's `unshare`; it ends with the processes in it, so nothing is left behind. Packets are lost by a rule of nftables, and are
//! late by the kernel's `netem`, which not every kernel has. A clock jumps by Debian's libfaketime, in front of an Envoy's C library: the wall clock only, as when a machine's time is set.

use super::fault::Impossible;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const INSIDE: &str = "BLOC_LAB_NAMESPACE";
const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// Goes on as the same command in a network namespace of its own, with nothing but a loopback device. Returns if it is there already, or cannot.
pub fn enter_namespace() {
    if inside() {
        succeeds("ip", &["link", "set", "lo", "up"]);
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    if succeeds("unshare", &["--net", "ip", "link", "set", "lo", "up"]) {
        let mut arguments: Vec<OsString> = vec!["--net".into(), "--".into(), program.into()];
        arguments.extend(std::env::args_os().skip(1));
        // Comes back only if it fails; then everything runs here, except what needs the namespace.
        let _ = Command::new("unshare").args(arguments).env(INSIDE, "1").exec();
    }
}

fn inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

fn namespace() -> Result<(), Impossible> {
    if inside() { Ok(()) } else { Err(Impossible("needs root for a network namespace of its own".into())) }
}

/// Whether packets can be lost.
pub fn can_lose() -> Result<(), Impossible> {
    namespace()?;
    let rules = lose_of(1) && succeeds("nft", &["delete", "table", "inet", "bloc_lab"]);
    if rules { Ok(()) } else { Err(Impossible("needs nftables (Debian's package) in the kernel and installed".into())) }
}

/// From now on a twentieth of the packets from and to `port` is lost.
pub fn lose(port: u16) {
    lose_of(port);
}

fn lose_of(port: u16) -> bool {
    let rule = |side: &str| format!("add rule inet bloc_lab input tcp {side} {port} numgen random mod 20 0 drop");
    let script = format!(
        "add table inet bloc_lab; add chain inet bloc_lab input {{ type filter hook input priority 0; }}; {}; {}",
        rule("dport"),
        rule("sport"),
    );
    succeeds("nft", &[&script])
}

/// From now on nothing is lost.
pub fn lose_nothing() {
    succeeds("nft", &["delete", "table", "inet", "bloc_lab"]);
}

/// Whether packets can be late.
pub fn can_delay() -> Result<(), Impossible> {
    namespace()?;
    let can = netem();
    delay_nothing();
    if can { Ok(()) } else { Err(Impossible("this kernel has no netem (CONFIG_NET_SCH_NETEM)".into())) }
}

/// From now on each packet is late.
pub fn delay() {
    netem();
}

fn netem() -> bool {
    succeeds("tc", &["qdisc", "add", "dev", "lo", "root", "netem", "delay", "3ms", "2ms"])
}

/// From now on packets are in time.
pub fn delay_nothing() {
    succeeds("tc", &["qdisc", "del", "dev", "lo", "root"]);
}

/// An Envoy whose wall clock [`set_clock`] sets: a script in `directory`.
pub fn envoy_with_a_clock(envoy: &Path, directory: &Path) -> Result<PathBuf, Impossible> {
    let Some(library) = FAKETIME.iter().find(|path| Path::new(path).is_file()) else {
        return Err(Impossible("needs libfaketime (Debian's package)".into()));
    };
    let (script, clock) = (directory.join("envoy-with-a-clock"), clock_file(directory));
    let text = format!(
        "#!/bin/sh\nexport LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE='{}' FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1\nexec '{}' \"$@\"\n",
        clock.display(),
        envoy.display()
    );
    let executable = || {
        std::fs::write(&script, text)?;
        set_clock(directory, "+0s")?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))
    };
    executable().map(|()| script.clone()).map_err(|error| Impossible(format!("{}: {error}", script.display())))
}

/// Sets the clocks of those Envoys, within a second, to so much ahead (`+3600s`) or behind (`-3600s`).
///
/// # Errors
/// The file cannot be written.
pub fn set_clock(directory: &Path, to: &str) -> io::Result<()> {
    let (file, draft) = (clock_file(directory), directory.join("clock.new"));
    std::fs::write(&draft, format!("{to}\n")).and_then(|()| std::fs::rename(&draft, &file))
}

fn clock_file(directory: &Path) -> PathBuf {
    directory.join("clock")
}
