//! The binary: its flags, its exit codes, and that SIGTERM answers held polls.
#![allow(missing_docs, reason = "tests")]

mod common;

use bloc_policy::sync::SyncResponse;
use common::LIMIT;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bloc-control-plane"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn run(arguments: &[&str]) -> Output {
    timeout(LIMIT, command(arguments).output()).await.unwrap().unwrap()
}

fn file(directory: &Path, name: &str, yaml: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, yaml).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn check_accepts_a_good_file_and_names_the_error_of_a_bad_one() {
    let directory = tempfile::tempdir().unwrap();
    let good = run(&["check", &file(directory.path(), "good", "services: {a: {}}")]).await;
    assert_eq!((good.status.code(), good.stdout.as_slice()), (Some(0), &b"ok: 1 services\n"[..]));
    let bad = run(&["check", &file(directory.path(), "bad", "services: {a: {headroom: 2}}")]).await;
    let message = String::from_utf8(bad.stderr).unwrap();
    assert_eq!(bad.status.code(), Some(1));
    assert!(message.contains("services.a.headroom: 2 is not allowed; allowed: a number above 0"), "{message}");
}

#[tokio::test]
async fn exits_on_an_invalid_node_agent() {
    let output = run(&["--source", "file:/none", "--node-agent", "ns/a"]).await;
    let message = String::from_utf8(output.stderr).unwrap();
    let reason = "\"ns/a\" is not allowed; allowed: ns/NAMESPACE/sa/ACCOUNT";
    assert!(!output.status.success() && message.contains(reason), "{message}");
}

#[tokio::test]
async fn exits_on_a_bad_file_of_leases_or_one_that_nobody_would_use() {
    let directory = tempfile::tempdir().unwrap();
    let services = format!("file:{}", file(directory.path(), "good", "services: {a: {}}"));
    let bad = file(directory.path(), "bad", r#"{"shop/checkout":{"nodes":[]}}"#);
    let pipe = directory.path().join("pipe").display().to_string();
    nix::unistd::mkfifo(&*pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (source, leases, reason) in [
        ("kubernetes", &bad, format!("--leases {bad} needs --source file:PATH")),
        (&services, &bad, format!("{bad}: shop/checkout.nodes: invalid type")),
        (&services, &pipe, format!("{pipe}: cannot be read: not a regular file")),
    ] {
        let output = run(&["--source", source, "--leases", leases]).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(&reason), "{message}");
    }
}

#[tokio::test]
async fn exits_on_an_invalid_trust_domain() {
    for (domain, identity, reason) in [
        ("", "spiffe", "\"\" is not allowed; allowed: 1 to 255 of"),
        ("a/b", "spiffe", "\"a/b\" is not allowed; allowed: 1 to 255 of"),
        ("a b", "spiffe", "\"a b\" is not allowed; allowed: 1 to 255 of"),
        ("a.b", "none", "--trust-domain a.b needs --identity spiffe"),
    ] {
        let source = ["--source", "file:/none", "--identity", identity, "--trust-domain", domain];
        let output = run(&source).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(reason), "{message}");
    }
}

#[tokio::test]
async fn check_reads_the_standard_input_and_warns() {
    let mut child = command(&["check", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"services: {a: {routing: bid}}").await.unwrap();
    let output = timeout(LIMIT, child.wait_with_output()).await.unwrap().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"ok: 1 services\n"[..]), "{message}");
    assert!(message.starts_with("-: warning: services.a.routing: bid without `concurrency`"), "{message}");
}

#[tokio::test]
async fn exits_on_a_bad_or_missing_file_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let bad = file(directory.path(), "bad", "services: {a: {retries: 11}}");
    for (source, reason) in [
        (format!("file:{bad}"), "services.a.retries: 11 is not allowed; allowed: 0 to 10"),
        (format!("file:{}/none", directory.path().display()), "cannot be read"),
    ] {
        let stale = file(directory.path(), "address", "127.0.0.1:1\n");
        let output = run(&["--source", &source, "--listen", "127.0.0.1:0", "--address-file", &stale]).await;
        assert!(!Path::new(&stale).exists(), "the stale address file is removed");
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(reason), "{message}");
    }
    let misuse = run(&["--source", "nonsense"]).await;
    assert_eq!(misuse.status.code(), Some(2));
    assert!(String::from_utf8(misuse.stderr).unwrap().contains("expected file:PATH"));
    let misuse = run(&["--source", "file:x", "--report-interval", "500ms"]).await;
    assert_eq!(misuse.status.code(), Some(2));
    assert!(String::from_utf8(misuse.stderr).unwrap().contains("\"500ms\" is not allowed; allowed: 1s to 60s"));
}

#[tokio::test]
async fn sigterm_answers_held_polls_and_ends() {
    let directory = tempfile::tempdir().unwrap();
    let source = format!("file:{}", file(directory.path(), "services.yaml", "services: {a: {}}"));
    let address_file = directory.path().join("address");
    std::fs::write(&address_file, "127.0.0.1:1\n").unwrap();
    let address_argument = address_file.display().to_string();
    let arguments =
        ["--source", &source, "--listen", "127.0.0.1:0", "--address-file", &address_argument, "--log-format", "json"];
    let child = command(&arguments).spawn().unwrap();
    let url = format!("http://{}/v1/sync", address(&address_file).await);

    let client = reqwest::Client::builder().no_proxy().timeout(LIMIT).build().unwrap();
    let first = client.post(&url).body(r#"{"proxy":"p","services":["a"]}"#).send().await.unwrap();
    let version = first.json::<SyncResponse>().await.unwrap().version;
    let body = format!(r#"{{"proxy":"p","version":"{version}","services":["a"]}}"#);
    let poll = tokio::spawn(client.post(&url).body(body).send());
    held(&client, &url).await;

    let output = terminate(child).await;
    // Answered, not cut off at the end of the drain.
    assert_eq!(poll.await.unwrap().unwrap().status(), 304);
    assert_eq!(output.status.code(), Some(0));
    let log = String::from_utf8(output.stderr).unwrap();
    let line: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(line["fields"]["held"], 1, "{log}");
}

#[tokio::test]
async fn serves_metrics_on_their_own_port_only_and_sigterm_ends_both() {
    let directory = tempfile::tempdir().unwrap();
    let source = format!("file:{}", file(directory.path(), "services.yaml", "services: {a: {}}"));
    let files = ["address", "metrics"].map(|name| directory.path().join(name));
    let [main, metrics] = files.each_ref().map(|file| file.display().to_string());
    std::fs::write(&files[1], "127.0.0.1:1\n").unwrap();
    let arguments = [
        ["--source", &source, "--listen", "127.0.0.1:0", "--address-file", &main],
        ["--log-format", "json", "--metrics-listen", "127.0.0.1:0", "--metrics-address-file", &metrics],
    ];
    let child = command(arguments.as_flattened()).spawn().unwrap();
    let main = address(&files[0]).await;
    // The binary writes this file before the other one.
    let metrics = std::fs::read_to_string(&files[1]).unwrap().trim().to_owned();
    let client = reqwest::Client::builder().no_proxy().timeout(LIMIT).build().unwrap();
    for (address, path, expected) in [
        (&main, "/metrics", 404),
        (&main, "/readyz", 200),
        (&main, "/v1/status", 200),
        (&metrics, "/metrics", 200),
        (&metrics, "/readyz", 404),
        (&metrics, "/", 404),
        (&metrics, "/v1/status", 404),
        (&metrics, "/v1/sync", 404),
    ] {
        let response = client.get(format!("http://{address}{path}")).send().await.unwrap();
        assert_eq!(response.status(), expected, "{path}");
    }
    let post = client.post(format!("http://{metrics}/metrics")).send().await.unwrap();
    assert_eq!(post.status(), 405);
    let text = client.get(format!("http://{metrics}/metrics")).send().await.unwrap().text().await.unwrap();
    assert_eq!(common::metric(&text, "bloc_config_services"), 1.0);

    // Without HTTP/2 a connection has one response at a time.
    for (address, speaks) in [(&main, true), (&metrics, false)] {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let empty_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        stream.write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &empty_settings].concat()).await.unwrap();
        let mut frame = [0; 9];
        let read = timeout(LIMIT, stream.read_exact(&mut frame)).await.expect("an answer or an end");
        assert_eq!(read.is_ok() && frame[3] == 4, speaks, "{address}: {frame:?}");
    }

    // The client keeps connections to both ports open; both must end.
    let output = terminate(child).await;
    assert_eq!(output.status.code(), Some(0));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(!log.contains("did not read their answers"), "{log}");
    for address in [main, metrics] {
        assert!(client.get(format!("http://{address}/metrics")).send().await.is_err(), "the port is closed");
    }
}

#[tokio::test]
async fn exits_on_an_invalid_or_taken_metrics_port() {
    let directory = tempfile::tempdir().unwrap();
    let source = format!("file:{}", file(directory.path(), "services.yaml", "services: {a: {}}"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (arguments, reason) in [
        (["--metrics-listen", &address], format!("cannot listen on {address}")),
        (["--metrics-listen", "7081"], "invalid socket address".to_owned()),
        (["--metrics-address-file", "/none"], "--metrics-listen".to_owned()),
    ] {
        let output = run(&[&["--source", &source, "--listen", "127.0.0.1:0"], &arguments[..]].concat()).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(&reason), "{message}");
    }
}

/// The address in the file, once it is written.
async fn address(file: &Path) -> String {
    let start = Instant::now();
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if text != "127.0.0.1:1\n" => return text.trim().to_owned(),
            _ => assert!(start.elapsed() < LIMIT, "no address"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until a poll is held.
async fn held(client: &reqwest::Client, url: &str) {
    let url = url.replace("/v1/sync", "/metrics");
    let start = Instant::now();
    loop {
        let text = client.get(&url).send().await.unwrap().text().await.unwrap();
        if common::metric(&text, "bloc_polls_held") == 1.0 {
            return;
        }
        assert!(start.elapsed() < LIMIT, "{text}");
    }
}

async fn terminate(child: Child) -> Output {
    let pid = Pid::from_raw(child.id().unwrap().cast_signed());
    kill(pid, Signal::SIGTERM).unwrap();
    timeout(LIMIT, child.wait_with_output()).await.unwrap().unwrap()
}
