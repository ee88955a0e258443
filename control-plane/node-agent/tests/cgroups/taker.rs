//! A process that takes memory as it is told: this program, started again.

use crate::sandbox::{PATIENCE, Sandbox};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What the process says when it has done what it was told.
const DONE: &str = "done";

/// To be dropped before its sandbox: a group with a process cannot be removed.
#[derive(Debug)]
pub struct Taker {
    process: Child,
    told: usize,
    done: Arc<AtomicUsize>,
}

impl Taker {
    /// Starts one in a group, in which it has nothing yet.
    pub fn new(sandbox: &Sandbox, path: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "taker::takes_what_it_is_told_to", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env(DONE, "")
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        std::thread::spawn(move || {
            for _ in lines.map_while(Result::ok).filter(|line| line == DONE) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let mut taker = Self { process, told: 0, done };
        // What it has so far counts where it was started.
        taker.take(0);
        taker.finish();
        sandbox.put(taker.process.id(), path);
        taker
    }

    /// Tells it to take so much more.
    pub fn take(&mut self, mebibytes: usize) {
        self.tell(&format!("take {mebibytes}"));
    }

    /// Tells it to read so much of a file.
    pub fn read(&mut self, mebibytes: usize, file: &Path) {
        self.tell(&format!("read {mebibytes} {}", file.display()));
    }

    fn tell(&mut self, command: &str) {
        self.told += 1;
        // A process that has ended reads nothing.
        let _ = writeln!(self.process.stdin.as_mut().unwrap(), "{command}");
    }

    /// Whether it has done all that it was told.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst) == self.told
    }

    /// Waits until it has done all that it was told.
    #[track_caller]
    pub fn finish(&mut self) {
        let began = Instant::now();
        while !self.is_done() {
            assert_eq!(self.process.try_wait().unwrap(), None, "it has ended");
            assert!(began.elapsed() < PATIENCE, "{:?} of {}", self.done, self.told);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether it runs.
    pub fn runs(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Waits until it has ended, and says by which signal.
    #[track_caller]
    pub fn ended_by(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.signal();
            }
            assert!(began.elapsed() < PATIENCE, "it runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The process itself. It ends with its input.
#[test]
#[ignore = "started by tests"]
fn takes_what_it_is_told_to() {
    if std::env::var_os(DONE).is_none() {
        return;
    }
    let (mut taken, mut open) = (Vec::new(), Vec::new());
    for line in io::stdin().lines().map_while(Result::ok) {
        let words: Vec<_> = line.split(' ').collect();
        let bytes = words[1].parse::<usize>().unwrap() << 20;
        match words[0] {
            "take" => taken.push(vec![1_u8; bytes]),
            _ => {
                let mut file = File::open(words[2]).unwrap().take(bytes as u64);
                let mut part = vec![0; 1 << 16];
                while file.read(&mut part).unwrap() > 0 {}
                // The kernel forgets what is on a disk when nobody has that open.
                open.push(file);
            }
        }
        println!("\n{DONE}");
    }
    assert!(taken.iter().flatten().all(|byte| *byte == 1));
}
