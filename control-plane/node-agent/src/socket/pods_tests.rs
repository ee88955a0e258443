//! Sockets come and go, in directories of the file system.

use super::directory::Directory;
use super::pods::Sockets;
use super::server::Counts;
use super::sidecar::Sidecar;
use crate::report::{Cpu, Hosts, Pod, PodName};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::time::Instant;

/// Long enough for a directory of no pod.
const LONG: Duration = Duration::from_secs(601);

fn pod(name: &str) -> PodName {
    PodName { namespace: "shop".to_owned(), name: name.to_owned() }
}

/// A node without pods.
struct Stand {
    directory: TempDir,
    sockets: Sockets,
    counts: Arc<Counts>,
    cpu: Cpu,
    /// The time of the next step.
    at: (Instant, SystemTime),
}

impl Stand {
    fn new() -> Self {
        let (directory, counts) = (tempfile::tempdir().unwrap(), Arc::<Counts>::default());
        let sockets = Sockets::new(Directory::open(directory.path()).unwrap(), Arc::clone(&counts));
        let cpu = Cpu { hosts: Some(Arc::default()), ..Cpu::default() };
        Self { directory, sockets, counts, cpu, at: (Instant::now(), SystemTime::now()) }
    }

    /// The pods on this node, of an application.
    fn pods(&mut self, names: &[&str]) {
        self.cpu.hosts = Some(Arc::new(names.iter().map(|name| (pod(name), true)).collect()));
    }

    fn step(&mut self) -> Vec<String> {
        self.wait(Duration::from_millis(100))
    }

    fn wait(&mut self, time: Duration) -> Vec<String> {
        self.at = (self.at.0 + time, self.at.1 + time);
        self.sockets.follow(&self.cpu, self.at.0, self.at.1)
    }

    fn path(&self, pod: &str) -> PathBuf {
        self.directory.path().join(format!("shop_{pod}"))
    }

    fn socket(&self, pod: &str) -> PathBuf {
        self.path(pod).join("self.sock")
    }

    /// What a sidecar hears; none: it cannot ask.
    async fn ask(&self, pod: &str) -> Option<Value> {
        Sidecar::connect(&self.socket(pod)).await.ok()?.cpu().await
    }
}

fn mode(path: &PathBuf) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn each_pod_of_an_application_has_a_socket_to_which_everybody_may_connect() {
    let mut stand = Stand::new();
    // The kubelet was here before.
    fs::create_dir(stand.path("b")).unwrap();
    fs::set_permissions(stand.path("b"), Permissions::from_mode(0o700)).unwrap();
    let inode = fs::metadata(stand.path("b")).unwrap().ino();
    stand.cpu.hosts = Some(Arc::new(Hosts::from([(pod("a"), true), (pod("b"), true), (pod("c"), false)])));
    let of = |cores, managed| Pod { cores: Some(cores), used_seconds: 9.0, managed };
    stand.cpu.pods = [(pod("a"), of(0.75, Some(true))), (pod("b"), of(0.5, Some(false)))].into();
    stand.cpu.used = Arc::new([(pod("a"), 0.25), (pod("b"), 0.25)].into());
    assert_eq!((stand.step(), stand.counts.open()), (vec![], 2));
    for name in ["a", "b"] {
        assert_eq!((mode(&stand.path(name)), mode(&stand.socket(name))), (0o755, 0o666), "{name}");
    }
    assert_eq!(fs::metadata(stand.path("b")).unwrap().ino(), inode, "it may be mounted");
    assert!(!stand.path("c").exists());
    assert_eq!(stand.ask("a").await, Some(json!({"cores": 0.75, "used": 0.25})));
    assert_eq!(stand.ask("b").await, Some(json!({})), "the agent has not set its quota");
    stand.cpu.pods = [(pod("a"), of(0.5, Some(true))), (pod("b"), of(0.5, Some(true)))].into();
    stand.step();
    assert_eq!(stand.ask("a").await, Some(json!({"cores": 0.5, "used": 0.25})));
    assert_eq!(stand.ask("b").await, Some(json!({"cores": 0.5, "used": 0.25})));
    stand.cpu.pods.clear();
    stand.step();
    assert_eq!([stand.ask("a").await, stand.ask("b").await], [Some(json!({})), Some(json!({}))]);
    assert_eq!(stand.counts.answers(), 6);
}

#[tokio::test]
async fn a_pod_that_is_to_come_under_a_limit_is_not_known_yet() {
    let mut stand = Stand::new();
    stand.pods(&["a", "b"]);
    stand.cpu.joining = [pod("a")].into();
    assert_eq!((stand.step(), stand.counts.open()), (vec![], 2));
    assert_eq!([stand.ask("a").await, stand.ask("b").await], [Some(Value::Null), Some(json!({}))]);
    stand.cpu.joining.clear();
    stand.cpu.pods = [(pod("a"), Pod { cores: Some(0.5), used_seconds: 9.0, managed: Some(true) })].into();
    stand.step();
    assert_eq!(stand.ask("a").await, Some(json!({"cores": 0.5})));
}

#[tokio::test]
async fn a_name_may_be_longer_than_the_address_of_a_socket() {
    let mut stand = Stand::new();
    let (fits, long) = ("p".repeat(250), "p".repeat(251));
    stand.pods(&[&fits, &long]);
    let errors = stand.step();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains(&long) && errors[0].contains("File name too long"), "{errors:?}");
    assert_eq!(stand.ask(&fits).await, Some(json!({})));
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_has_no_socket() {
    let mut stand = Stand::new();
    stand.pods(&["", "../x", "a/b", "A", "a_b", "a"]);
    let errors = stand.step();
    assert_eq!((errors.len(), stand.counts.open()), (5, 1), "{errors:?}");
    assert!(errors.contains(&"shop/../x: this is no name of a pod".to_owned()), "{errors:?}");
    assert_eq!(fs::read_dir(stand.directory.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_link_in_the_place_of_a_directory_is_not_followed() {
    let mut stand = Stand::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("self.sock"), "victim").unwrap();
    fs::set_permissions(elsewhere.path(), Permissions::from_mode(0o700)).unwrap();
    symlink(elsewhere.path(), stand.path("a")).unwrap();
    fs::write(stand.path("b"), "").unwrap();
    stand.pods(&["a", "b", "c"]);
    let errors = stand.step();
    assert_eq!((errors.len(), stand.counts.open()), (2, 1), "{errors:?}");
    for (error, name) in errors.iter().zip(["a", "b"]) {
        let expected = format!("{}: no directory can be made there: ", stand.path(name).display());
        assert!(error.starts_with(&expected), "{error}");
    }
    assert_eq!(fs::read(elsewhere.path().join("self.sock")).unwrap(), b"victim");
    assert_eq!(mode(&elsewhere.path().to_owned()), 0o700);
    // It is tried again each second, not in each step; the others are not disturbed.
    let errors: usize = (0..20).map(|_| stand.step().len()).sum();
    assert_eq!(errors, 4);
    assert_eq!(stand.ask("c").await, Some(json!({})));
    // Nobody has that pod any more: a link is no directory to be removed.
    stand.pods(&[]);
    assert_eq!(stand.wait(LONG), [] as [String; 0]);
    assert!(stand.path("a").is_symlink() && elsewhere.path().join("self.sock").exists());
    fs::remove_file(stand.path("a")).unwrap();
    stand.pods(&["a"]);
    assert_eq!((stand.step(), stand.counts.open()), (vec![], 1));
}

#[tokio::test]
async fn a_link_in_the_place_of_a_socket_is_replaced_and_not_followed() {
    let mut stand = Stand::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let victim = elsewhere.path().join("victim");
    fs::write(&victim, "").unwrap();
    fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
    for (name, target) in [("a", victim.clone()), ("b", elsewhere.path().join("missing"))] {
        fs::create_dir(stand.path(name)).unwrap();
        symlink(target, stand.socket(name)).unwrap();
    }
    fs::create_dir_all(stand.socket("c")).unwrap();
    stand.pods(&["a", "b", "c"]);
    let errors = stand.step();
    assert_eq!(errors, [format!("{}: cannot be removed: EISDIR: Is a directory", stand.socket("c").display())]);
    for name in ["a", "b"] {
        assert!(fs::symlink_metadata(stand.socket(name)).unwrap().file_type().is_socket());
    }
    assert_eq!((mode(&victim), fs::read_dir(elsewhere.path()).unwrap().count()), (0o600, 1));
    // While the agent runs.
    fs::remove_file(stand.socket("a")).unwrap();
    symlink(&victim, stand.socket("a")).unwrap();
    stand.wait(Duration::from_secs(1));
    assert_eq!(stand.ask("a").await, Some(json!({})));
    assert_eq!(mode(&victim), 0o600);
    // At the end a link that is not the agent's stays, and so does what it leads to.
    fs::remove_file(stand.socket("a")).unwrap();
    symlink(&victim, stand.socket("a")).unwrap();
    let link = stand.socket("a");
    drop(stand.sockets);
    assert!(link.is_symlink() && victim.exists());
}

#[tokio::test]
async fn a_socket_of_an_earlier_agent_or_one_that_somebody_removes_is_replaced() {
    let mut stand = Stand::new();
    fs::create_dir(stand.path("a")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(stand.socket("a")).unwrap());
    assert!(stand.socket("a").exists());
    assert_eq!(stand.ask("a").await, None, "nobody answers");
    stand.pods(&["a"]);
    stand.step();
    let mut sidecar = Sidecar::connect(&stand.socket("a")).await.unwrap();
    assert_eq!(sidecar.cpu().await, Some(json!({})));
    for removed in [stand.socket("a"), stand.path("a")] {
        if removed.is_dir() {
            fs::remove_dir_all(&removed).unwrap()
        } else {
            fs::remove_file(&removed).unwrap()
        }
        assert_eq!(stand.wait(Duration::from_secs(1)), [] as [String; 0]);
        assert_eq!(stand.ask("a").await, Some(json!({})), "{}", removed.display());
        assert!(sidecar.is_closed().await);
        sidecar = Sidecar::connect(&stand.socket("a")).await.unwrap();
    }
    assert_eq!(stand.counts.open(), 1);
}

#[tokio::test]
async fn a_pod_that_goes_takes_its_socket_along_and_later_its_directory() {
    let mut stand = Stand::new();
    stand.pods(&["a", "b"]);
    stand.step();
    let mut sidecar = Sidecar::connect(&stand.socket("a")).await.unwrap();
    assert!(sidecar.cpu().await.is_some());
    stand.pods(&["b"]);
    stand.step();
    assert_eq!((stand.socket("a").exists(), stand.path("a").exists(), stand.counts.open()), (false, true, 1));
    assert!(sidecar.is_closed().await);
    assert!(stand.ask("b").await.is_some());
    assert_eq!(stand.wait(LONG - Duration::from_secs(10)), [] as [String; 0]);
    assert!(stand.path("a").exists());
    stand.wait(Duration::from_secs(70));
    assert!(!stand.path("a").exists() && stand.socket("b").exists());
}

#[tokio::test]
async fn directories_of_pods_that_nobody_knows_go_after_a_while_and_all_else_stays() {
    let mut stand = Stand::new();
    let other = |name: &str| stand.directory.path().join(name);
    let stay = ["shop", "_a", "shop_", "shop_A", "a b_c", ".x", "shop_full", "shop_other", "shop_app"].map(other);
    let go = ["shop_a", "kube-system_b.c-0"].map(other);
    for path in stay.iter().chain(&go) {
        fs::create_dir(path).unwrap();
    }
    let file = other("shop_file");
    fs::write(&file, "").unwrap();
    fs::write(stand.path("full").join("mine"), "").unwrap();
    drop(std::os::unix::net::UnixListener::bind(stand.socket("a")).unwrap());
    // Not before it is known who runs here.
    let hosts = Hosts::from([(pod("other"), false), (pod("app"), true)]);
    stand.cpu.hosts = None;
    assert_eq!(stand.wait(LONG), [] as [String; 0]);
    assert!(go.iter().all(|path| path.exists()));
    stand.cpu.hosts = Some(Arc::new(hosts));
    assert_eq!(stand.wait(LONG), [] as [String; 0]);
    assert!(go.iter().all(|path| !path.exists()));
    assert!(stay.iter().all(|path| path.is_dir()) && file.exists() && stand.path("full").join("mine").exists());
}

#[tokio::test]
async fn a_directory_that_was_just_made_stays() {
    let mut stand = Stand::new();
    fs::create_dir(stand.path("a")).unwrap();
    for _ in 0..8 {
        stand.wait(Duration::from_secs(70));
        assert!(stand.path("a").exists());
    }
    stand.wait(Duration::from_secs(70));
    assert!(!stand.path("a").exists());
}

#[tokio::test]
async fn there_are_512_sockets_at_most() {
    let _ = rlimit::increase_nofile_limit(4_096);
    let mut stand = Stand::new();
    let names: Vec<String> = (100..615).map(|nth| format!("p{nth}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stand.pods(&names);
    let errors = stand.step();
    assert_eq!((errors.len(), stand.counts.open()), (3, 512));
    let expected = format!("{}: there are 512 sockets already", stand.socket("p612").display());
    assert_eq!(errors[0], expected);
    stand.pods(&names[1..]);
    stand.wait(Duration::from_secs(1));
    assert!(stand.socket("p612").exists() && !stand.socket("p100").exists());
}

#[tokio::test]
async fn at_the_end_sockets_are_removed_and_connections_closed() {
    let mut stand = Stand::new();
    stand.pods(&["a", "b"]);
    stand.step();
    let mut sidecar = Sidecar::connect(&stand.socket("a")).await.unwrap();
    assert!(sidecar.cpu().await.is_some());
    let (a, b) = (stand.socket("a"), stand.socket("b"));
    drop(stand.sockets);
    assert_eq!((a.exists(), b.exists(), stand.counts.open()), (false, false, 0));
    assert!(sidecar.is_closed().await);
    assert!(a.parent().unwrap().exists(), "a sidecar has mounted it");
}
