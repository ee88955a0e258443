//! Faults that need the system: our own network namespace, and packets that are lost or late in it.
//!
//! A namespace needs root and util-linux's `unshare`. It ends with its processes, so nothing is
//! left behind. A rule of nftables drops packets. A TUN device of ours makes packets late.

use rand::RngExt;
use std::ffi::OsString;
use std::io;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tun::Tun;

/// A fault that cannot be injected here, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible(pub String);

const INSIDE: &str = "BLOC_LAB_NAMESPACE";
/// The name of our nftables table.
const TABLE: &str = "bloc_lab";

/// Restarts the same command in its own network namespace, which has only a loopback device.
/// Returns if it is already there, or cannot do it.
pub fn enter_namespace() {
    if inside() {
        succeeds("ip", &["link", "set", "lo", "up"]);
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    if succeeds("unshare", &["--net", "ip", "link", "set", "lo", "up"]) {
        let mut arguments: Vec<OsString> = vec!["--net".into(), "--".into(), program.into()];
        arguments.extend(std::env::args_os().skip(1));
        // Returns only if it fails. Then everything runs here, except what needs the namespace.
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

/// Whether packets can be dropped here.
pub fn can_lose() -> Result<(), Impossible> {
    namespace()?;
    let rules = lose_of(1) && succeeds("nft", &["delete", "table", "inet", TABLE]);
    if rules { Ok(()) } else { Err(no_nftables()) }
}

fn no_nftables() -> Impossible {
    Impossible("needs nftables (Debian's package) in the kernel and installed".into())
}

/// From now on a twentieth of the packets from and to `port` is dropped.
pub fn lose(port: u16) {
    lose_of(port);
}

fn lose_of(port: u16) -> bool {
    let rule = |side: &str| format!("add rule inet {TABLE} input tcp {side} {port} numgen random mod 20 0 drop");
    let script = format!(
        "add table inet {TABLE}; add chain inet {TABLE} input {{ type filter hook input priority 0; }}; {}; {}",
        rule("dport"),
        rule("sport"),
    );
    succeeds("nft", &[&script])
}

/// From now on no packet is dropped.
pub fn lose_nothing() {
    succeeds("nft", &["delete", "table", "inet", TABLE]);
}

/// The device that late packets pass through.
const DEVICE: &str = "late";
/// The largest packet from a loopback device, and its link header.
const PACKET: usize = 65_536 + LINK_HEADER;
/// A packet that leaves a loopback device for another still has an Ethernet header.
const LINK_HEADER: usize = 14;
/// The delay of a packet, in milliseconds.
const LATE_MS: RangeInclusive<f64> = 1.0..=5.0;
/// More than the longest delay.
const LATEST: Duration = Duration::from_millis(20);

/// Makes packets late while it exists.
///
/// nftables forwards the packets that arrive on the loopback device to a TUN device, and this
/// writes them back there some time later, in order. `tc` with the kernel's `netem` would do the
/// same, but not every kernel has it.
#[derive(Debug)]
pub struct Delay {
    tasks: JoinSet<()>,
}

impl Delay {
    /// From now on each TCP packet of the namespace is late.
    pub fn begin() -> Result<Self, Impossible> {
        namespace()?;
        let tun = Tun::builder().name(DEVICE).mtu(65_535).up().build().ok().and_then(|mut tuns| tuns.pop());
        let tun = Arc::new(tun.ok_or_else(|| Impossible("needs TUN devices (/dev/net/tun)".into()))?);
        // The packets that come back have an address of this machine as their source.
        for (device, name, value) in [
            (DEVICE, "accept_local", "1"),
            (DEVICE, "route_localnet", "1"),
            (DEVICE, "rp_filter", "0"),
            ("all", "rp_filter", "0"),
        ] {
            let path = format!("/proc/sys/net/ipv4/conf/{device}/{name}");
            std::fs::write(&path, value).map_err(|error| Impossible(format!("{path}: {error}")))?;
        }
        let (sender, mut receiver) = unbounded_channel::<(Instant, Vec<u8>)>();
        let mut tasks = JoinSet::new();
        let source = tun.clone();
        tasks.spawn(async move {
            let (mut packet, mut due) = ([0; PACKET], Instant::now());
            while let Ok(length) = source.recv(&mut packet).await {
                due = due.max(Instant::now() + Duration::from_secs_f64(rand::rng().random_range(LATE_MS) / 1e3));
                let content = packet[..length].get(LINK_HEADER..).unwrap_or_default();
                if sender.send((due, content.to_vec())).is_err() {
                    return;
                }
            }
        });
        tasks.spawn(async move {
            while let Some((due, packet)) = receiver.recv().await {
                sleep_until(due).await;
                // The kernel refuses the device's own packets (IPv6 router solicitations). They had
                // no link header, so they now lack their first bytes.
                let _ = tun.send(&packet).await;
            }
        });
        let delay = Self { tasks };
        let script = format!(
            "add table netdev {TABLE}; add chain netdev {TABLE} input {{ type filter hook ingress device lo priority 0; }}; \
             add rule netdev {TABLE} input meta l4proto tcp fwd to {DEVICE}"
        );
        // If this fails, dropping `delay` removes the device.
        if succeeds("nft", &[&script]) { Ok(delay) } else { Err(no_nftables()) }
    }

    /// From now on packets are on time. Packets under way still arrive.
    pub async fn end(mut self) {
        on_time();
        sleep(LATEST).await;
        self.tasks.shutdown().await;
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        on_time();
    }
}

fn on_time() {
    succeeds("nft", &["delete", "table", "netdev", TABLE]);
}

/// Whether packets can be delayed here, and whether that has an effect.
pub async fn can_delay() -> Result<(), Impossible> {
    let delay = Delay::begin()?;
    let took = connecting().await;
    delay.end().await;
    // The way there and back.
    let least = Duration::from_secs_f64(2.0 * LATE_MS.start() / 1e3);
    match took {
        Ok(took) if took >= least => Ok(()),
        Ok(took) => {
            Err(Impossible(format!("a connection takes {took:?} and not {least:?} when packets should be late")))
        }
        Err(error) => Err(Impossible(format!("no connection when packets should be late: {error}"))),
    }
}

async fn connecting() -> io::Result<Duration> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let began = Instant::now();
    timeout(Duration::from_secs(5), TcpStream::connect(listener.local_addr()?)).await??;
    Ok(began.elapsed())
}
