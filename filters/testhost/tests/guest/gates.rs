//! The cost of a request must not rise unnoticed.

use bloc_testhost::gates::{HOW_TO_RECORD, Measured, Record, record_file};

#[test]
fn host_calls_instructions_and_size_stay_within_the_record() {
    let file = record_file();
    let text = std::fs::read(&file).unwrap_or_else(|_| panic!("{}: missing; make it: {HOW_TO_RECORD}", file.display()));
    let record: Record = serde_json::from_slice(&text).expect("a record");
    let measured = Measured::just_built().unwrap_or_else(|error| panic!("{error}"));
    let excess = measured.excess(&record);
    assert!(excess.is_empty(), "{}\nif it is meant to be so: {HOW_TO_RECORD}", excess.join("\n"));
}
