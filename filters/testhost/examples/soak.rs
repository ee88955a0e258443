//! The soak at full length: 5 million requests and 10,000 servers that come and go (two arguments
//! change the numbers), half with learned servers and half with servers that the control plane
//! announces. Fails if the guests' memory grows after the first tenth.

use bloc_testhost::soak::{Servers, Soak};
use bloc_testhost::{Compile, Module};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (requests, servers) = (number(5_000_000)? / 2, number(10_000)? / 2);
    let module = Module::just_built(Compile::Optimised)?;
    let mut flat = true;
    for from in [Servers::Learned, Servers::Announced] {
        let began = Instant::now();
        let seen = Soak { requests, servers, from }.run(&module);
        println!("{from:?}: {requests} requests, {servers} servers, {:.0} s: {seen:?}", began.elapsed().as_secs_f64());
        flat &= seen.warm == seen.end && seen.contexts == 0;
    }
    if flat { Ok(()) } else { Err("the guests' memory is not flat".into()) }
}
