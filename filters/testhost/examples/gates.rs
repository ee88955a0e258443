//! The cost of a request on the steady path: host calls by name, instructions, buffers. `gates
//! record` writes the record that the tests compare with.

use bloc_testhost::gates::{Measured, Record, record_file};
use bloc_testhost::steady::REQUESTS;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let measured = Measured::just_built()?;
    println!("module: {} bytes, compiler {}", measured.bytes, measured.compiler);
    let per_request = |sum: u64| sum as f64 / REQUESTS as f64;
    for (routing, steady) in &measured.costs {
        println!("\n{routing}: per request");
        for (part, cost) in steady.parts() {
            println!(
                "  {part:<9} {:>8.0} instructions  {:>5.2} host calls  {:>5.2} buffers of {:.0} bytes",
                per_request(cost.fuel()),
                per_request(cost.calls()),
                per_request(cost.buffers),
                per_request(cost.buffer_bytes),
            );
            for (callback, (count, fuel)) in &cost.callbacks {
                println!(
                    "    {callback:<32} {:>6.2} x {:>6.0} instructions",
                    per_request(*count),
                    *fuel as f64 / *count as f64
                );
            }
            for (call, count) in &cost.host_calls {
                println!("    {call:<32} {:>6.2}", per_request(*count));
            }
        }
    }
    let file = record_file();
    let record: Record = match std::fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes)?,
        Err(_) => Record::default(),
    };
    let excess = measured.excess(&record);
    if std::env::args().nth(1).as_deref() == Some("record") {
        std::fs::create_dir_all(file.parent().unwrap_or(&file))?;
        let mut text = serde_json::to_string_pretty(&measured.recorded_in(record))?;
        text.push('\n');
        std::fs::write(&file, text)?;
        println!("\nrecorded in benches/record/gates.json");
    }
    excess.iter().for_each(|line| println!("above the record: {line}"));
    Ok(())
}
