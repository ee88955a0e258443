//! What needs the system's help: a network namespace of our own, and packets that get lost or come late in it.
//!
//! A namespace needs root and util-linux's `unshare`; it ends with the processes in it, so nothing is left behind. Packets are lost by a rule of nftables, and are
//! late by the kernel's `netem`, which not every kernel has.

use super::fault::Impossible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const INSIDE: &str = "BLOC_LAB_NAMESPACE";

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
