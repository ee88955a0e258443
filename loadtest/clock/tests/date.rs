//! The library, loaded into programs that print the time.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const HOUR: i64 = 3_600;

fn library() -> PathBuf {
    // target/debug/deps/date-… is beside the library.
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libbloc_clock.so");
    assert!(library.is_file(), "{} is missing", library.display());
    library
}

fn step(file: &Path, seconds: i64) {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(file)
        .unwrap()
        .write_all(&seconds.to_ne_bytes())
        .unwrap();
}

/// How far off the clock of a program is, in seconds.
fn off(told: i64) -> i64 {
    told - i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// Whether `off` is `expected`, within the delays of a busy machine.
fn is(off: i64, expected: i64) -> bool {
    (off - expected).abs() < HOUR / 2
}

#[test]
fn steps_the_clock_of_a_running_program() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("clock");
    step(&file, 0);
    // Bash uses time(2), gettimeofday(2) or clock_gettime(2), depending on its version.
    let mut bash = Command::new("bash")
        .args(["-c", "while read -r; do printf '%(%s)T\\n' -1; done"])
        .env("LD_PRELOAD", library())
        .env("BLOC_CLOCK", &file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut ask, mut answers) = (bash.stdin.take().unwrap(), BufReader::new(bash.stdout.take().unwrap()).lines());
    let mut told = || {
        ask.write_all(b"\n").unwrap();
        off(answers.next().unwrap().unwrap().parse().unwrap())
    };
    assert!(is(told(), 0));
    for seconds in [HOUR, -HOUR, 0] {
        step(&file, seconds);
        let off = told();
        assert!(is(off, seconds), "{off} after a step to {seconds}");
    }
    drop(ask);
    assert!(bash.wait().unwrap().success());
}

#[test]
fn shifts_the_time_that_date_prints() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("clock");
    step(&file, -HOUR);
    let told = |with: bool| {
        let mut date = Command::new("date");
        date.arg("+%s").env("LD_PRELOAD", library());
        if with {
            date.env("BLOC_CLOCK", &file);
        }
        String::from_utf8(date.output().unwrap().stdout).unwrap().trim().parse().unwrap()
    };
    assert!(is(off(told(true)), -HOUR));
    assert!(is(off(told(false)), 0), "without a file nothing is added");
}
