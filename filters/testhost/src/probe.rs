//! A probe: a tiny guest that makes given host calls and reports the result of each.
//!
//! The report is a text. For each call it has the status (`ok`, or the ABI's number), the number
//! returned (`=7`), and in brackets the bytes returned. At response headers the guest puts it into
//! the response header [`REPORT`], so the same probe runs in this host and in a real Envoy.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The response header with the report.
pub const REPORT: &str = "x-probe";

/// An argument of a host call.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A number.
    I32(i32),
    /// A 64-bit number.
    I64(i64),
    /// Bytes: a pointer and a size.
    Bytes(Vec<u8>),
    /// Where the call writes up to eight bytes.
    Word,
    /// Where the call writes a pointer and a size; the bytes there are reported.
    Buffer,
    /// As [`Self::Word`]; also reports the first four bytes written.
    Value,
    /// What the last call with [`Arg::Word`] or [`Arg::Value`] wrote.
    LastWord,
}

/// Bytes from a text.
pub fn text(text: &str) -> Arg {
    Arg::Bytes(text.as_bytes().to_vec())
}

/// Host calls, by the callback that makes them.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    configure: Vec<Step>,
    request: Vec<Step>,
    response: Vec<Step>,
    tick: Vec<Step>,
    pauses: bool,
}

#[derive(Clone, Debug)]
struct Step {
    module: &'static str,
    function: &'static str,
    arguments: Vec<Arg>,
}

fn step(function: &'static str, arguments: &[Arg]) -> Step {
    let wasi = ["clock_time_get", "random_get"].contains(&function);
    let module = if wasi { "wasi_snapshot_preview1" } else { "env" };
    Step { module, function, arguments: arguments.to_vec() }
}

/// Addresses in the probe's memory of four pages.
const WORD: u32 = 512;
const BUFFER: u32 = 528;
const DATA: u32 = 1024;
const TEXT: u32 = 0x1_0000;
const HEAP: u32 = 0x2_0000;

impl Probe {
    /// Adds a call in `proxy_on_configure`.
    #[must_use]
    pub fn configure(mut self, function: &'static str, arguments: &[Arg]) -> Self {
        self.configure.push(step(function, arguments));
        self
    }

    /// Adds a call in `proxy_on_request_headers`.
    #[must_use]
    pub fn request(mut self, function: &'static str, arguments: &[Arg]) -> Self {
        self.request.push(step(function, arguments));
        self
    }

    /// Adds a call in `proxy_on_response_headers`.
    #[must_use]
    pub fn response(mut self, function: &'static str, arguments: &[Arg]) -> Self {
        self.response.push(step(function, arguments));
        self
    }

    /// Adds a call in `proxy_on_tick`.
    #[must_use]
    pub fn tick(mut self, function: &'static str, arguments: &[Arg]) -> Self {
        self.tick.push(step(function, arguments));
        self
    }

    /// Lets `proxy_on_request_headers` pause the stream.
    #[must_use]
    pub fn pausing(mut self) -> Self {
        self.pauses = true;
        self
    }

    /// The module, as WebAssembly binary.
    ///
    /// # Panics
    /// A step cannot be written as WebAssembly.
    pub fn wasm(&self) -> Vec<u8> {
        wat::parse_str(self.wat()).expect("the probe's text")
    }

    /// The module, as WebAssembly text.
    pub fn wat(&self) -> String {
        let report = step("proxy_replace_header_map_value", &[Arg::I32(2), text(REPORT), Arg::I32(0), Arg::I32(0)]);
        let mut imports = BTreeMap::new();
        let mut data = Data::default();
        let mut bodies = [&self.configure, &self.request, &self.response, &self.tick].map(|steps| {
            steps.iter().fold(String::new(), |mut body, step| {
                body.push_str(&step.call(&mut imports, &mut data));
                body
            })
        });
        report.import(&mut imports);
        let name = data.place(REPORT.as_bytes());
        let _ = write!(
            bodies[2],
            "(drop (call $proxy_replace_header_map_value (i32.const 2) (i32.const {name}) (i32.const {})
               (i32.const {TEXT}) (i32.sub (global.get $end) (i32.const {TEXT}))))",
            REPORT.len()
        );
        let [configure, request, response, tick] = bodies;
        let imports: String = imports.into_values().collect();
        let (data, action) = (data.segments, u32::from(self.pauses));
        format!(
            r#"(module
{imports}
(memory (export "memory") 4)
(global $end (mut i32) (i32.const {TEXT}))
(global $base (mut i32) (i32.const {TEXT}))
(global $heap (mut i32) (i32.const {HEAP}))
{data}
(func $byte (param i32) (i32.store8 (global.get $end) (local.get 0)) (global.set $end (i32.add (global.get $end) (i32.const 1))))
(func $bytes (param $from i32) (param $size i32)
  (call $byte (i32.const 40))
  (memory.copy (global.get $end) (local.get $from) (local.get $size))
  (global.set $end (i32.add (global.get $end) (local.get $size)))
  (call $byte (i32.const 41)))
(func $number (param i32)
  (if (i32.gt_u (local.get 0) (i32.const 9)) (then (call $number (i32.div_u (local.get 0) (i32.const 10)))))
  (call $byte (i32.add (i32.const 48) (i32.rem_u (local.get 0) (i32.const 10)))))
(func $value (call $byte (i32.const 61)) (call $number (i32.load (i32.const {WORD}))))
(func $status (param i32)
  (if (i32.ne (global.get $end) (i32.const {TEXT})) (then (call $byte (i32.const 32))))
  (if (i32.eqz (local.get 0))
    (then (call $byte (i32.const 111)) (call $byte (i32.const 107)))
    (else (call $number (local.get 0)))))
(func (export "proxy_abi_version_0_2_1"))
(func (export "proxy_on_memory_allocate") (param i32) (result i32)
  (global.get $heap) (global.set $heap (i32.add (global.get $heap) (local.get 0))))
(func (export "proxy_on_context_create") (param i32 i32))
(func (export "proxy_on_configure") (param i32 i32) (result i32)
  {configure}
  (global.set $base (global.get $end)) (i32.const 1))
(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
  (global.set $heap (i32.const {HEAP})) (global.set $end (global.get $base))
  {request}
  (i32.const {action}))
(func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
  {response}
  (i32.const 0))
(func (export "proxy_on_tick") (param i32) {tick}))
"#
        )
    }
}

impl Step {
    /// The arguments as WebAssembly expressions with their types.
    fn arguments(&self, data: &mut Data) -> Vec<(&'static str, String)> {
        let word = |value: u32| ("i32", format!("(i32.const {value})"));
        self.arguments
            .iter()
            .flat_map(|argument| match argument {
                Arg::I32(value) => vec![("i32", format!("(i32.const {value})"))],
                Arg::I64(value) => vec![("i64", format!("(i64.const {value})"))],
                Arg::Bytes(bytes) => vec![word(data.place(bytes)), word(bytes.len() as u32)],
                Arg::Word | Arg::Value => vec![word(WORD)],
                Arg::Buffer => vec![word(BUFFER), word(BUFFER + 4)],
                Arg::LastWord => vec![("i32", format!("(i32.load (i32.const {WORD}))"))],
            })
            .collect()
    }

    fn import(&self, imports: &mut BTreeMap<&'static str, String>) {
        let types: Vec<&str> = self.arguments(&mut Data::default()).into_iter().map(|(kind, _)| kind).collect();
        let (module, function, types) = (self.module, self.function, types.join(" "));
        let import = format!("(import \"{module}\" \"{function}\" (func ${function} (param {types}) (result i32)))\n");
        let known = imports.insert(function, import.clone());
        assert!(known.is_none_or(|known| known == import), "{function} is called with different arguments");
    }

    fn call(&self, imports: &mut BTreeMap<&'static str, String>, data: &mut Data) -> String {
        self.import(imports);
        let arguments: Vec<String> = self.arguments(data).into_iter().map(|(_, text)| text).collect();
        let mut call = format!("(call $status (call ${} {}))\n", self.function, arguments.join(" "));
        if self.arguments.iter().any(|argument| matches!(argument, Arg::Value)) {
            call.push_str("(call $value)\n");
        }
        if self.arguments.iter().any(|argument| matches!(argument, Arg::Buffer)) {
            // A failed call writes nothing. A reported result is cleared, so that it is not
            // reported twice.
            let _ = writeln!(
                call,
                "(if (i32.load (i32.const {BUFFER})) (then (call $bytes (i32.load (i32.const {BUFFER})) (i32.load (i32.const {}))) \
                 (i32.store (i32.const {BUFFER}) (i32.const 0))))",
                BUFFER + 4
            );
        }
        call
    }
}

/// The probe's constants.
struct Data {
    next: u32,
    segments: String,
}

impl Default for Data {
    fn default() -> Self {
        Self { next: DATA, segments: String::new() }
    }
}

impl Data {
    fn place(&mut self, bytes: &[u8]) -> u32 {
        let place = self.next;
        let escaped: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        let _ = writeln!(self.segments, "(data (i32.const {place}) \"{escaped}\")");
        self.next += bytes.len() as u32;
        place
    }
}
