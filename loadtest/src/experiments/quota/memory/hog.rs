//! `bloc-lab hog`: takes and gives back memory by a schedule, until it is killed.

use super::plan::Shape;
use bloc_mesh::quantity::{NotAllowed, duration};
use clap::Args;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const TICK: Duration = Duration::from_millis(5);
/// What the part without a burst grows by in a tick, at most.
const STEADY: u64 = 1 << 20;

/// Take and give back memory; `quota` starts it
#[derive(Debug, Args)]
pub struct Hog {
    /// Bytes without a burst
    #[arg(long)]
    base: u64,
    /// Bytes that it grows by
    #[arg(long, default_value = "0")]
    growth: u64,
    /// Until then it grows
    #[arg(long, value_parser = time)]
    length: Duration,
    /// Bytes of its burst
    #[arg(long)]
    burst: u64,
    /// When the burst begins
    #[arg(long, value_parser = time)]
    begin: Duration,
    /// How long it rises
    #[arg(long, value_parser = time)]
    rise: Duration,
    /// How long it stays
    #[arg(long, value_parser = time)]
    hold: Duration,
    /// Time that has passed already; a burst that began before is left out
    #[arg(long, value_parser = time)]
    since: Duration,
}

/// What is written at once: `Vec::resize` goes byte by byte in a debug build, which is slower than
/// a burst has to rise.
static PIECE: [u8; 64 << 10] = [1; 64 << 10];

/// Memory that is in use.
#[derive(Debug, Default)]
struct Taken(Vec<u8>);

impl Taken {
    /// Uses so many bytes of a block of `most`, after at most `step` more than before: a process
    /// that had to wait for a CPU does not grow faster after that. What is given back goes back to
    /// the kernel: blocks of more than 32 MiB are mapped.
    fn set(&mut self, bytes: u64, step: u64, most: u64) {
        let bytes = bytes.min(self.0.len() as u64 + step);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes < self.0.len() {
            self.0 = Vec::new();
        }
        if bytes > self.0.len() {
            let more = usize::try_from(most).unwrap_or(usize::MAX) - self.0.len();
            self.0.reserve_exact(more);
            while self.0.len() < bytes {
                let piece = PIECE.len().min(bytes - self.0.len());
                self.0.extend_from_slice(&PIECE[..piece]);
            }
        }
        std::hint::black_box(&self.0);
    }
}

impl Hog {
    /// The options of this shape, after so much time.
    pub fn options(shape: &Shape, since: Duration) -> Vec<(&'static str, String)> {
        let ms = |time: Duration| format!("{}us", time.as_micros());
        vec![
            ("--base", shape.base.to_string()),
            ("--growth", shape.growth.to_string()),
            ("--length", ms(shape.length)),
            ("--burst", shape.burst.to_string()),
            ("--begin", ms(shape.begin)),
            ("--rise", ms(shape.rise)),
            ("--hold", ms(shape.hold)),
            ("--since", ms(since)),
        ]
    }

    /// Runs until it is killed.
    pub async fn run(self) -> anyhow::Result<()> {
        let (shape, start) = (self.shape(), Instant::now());
        let (mut steady, mut burst) = (Taken::default(), Taken::default());
        loop {
            let [wanted, more] = shape.wants(self.since + start.elapsed());
            steady.set(wanted, STEADY, shape.base + shape.growth);
            burst.set(more, shape.burst_in(2 * TICK), shape.burst);
            sleep(TICK).await;
        }
    }

    fn shape(&self) -> Shape {
        let Self { base, growth, length, burst, begin, rise, hold, since } = *self;
        let burst = if begin < since { 0 } else { burst };
        Shape { base, growth, length, burst, begin, rise, hold }
    }
}

fn time(text: &str) -> Result<Duration, NotAllowed> {
    duration(text, Duration::ZERO, Duration::from_secs(86_400))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Arguments {
        #[command(flatten)]
        hog: Hog,
    }

    #[test]
    fn options_say_the_shape_and_a_burst_that_began_before_is_left_out() {
        let ms = Duration::from_millis;
        let shape = Shape {
            base: 1,
            growth: 2,
            length: ms(3),
            burst: 4,
            begin: ms(5),
            rise: Duration::from_micros(6_500),
            hold: ms(7),
        };
        let read = |since| {
            let options = Hog::options(&shape, since).into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
            Arguments::parse_from(["hog".to_owned()].into_iter().chain(options)).hog
        };
        assert_eq!((read(ms(5)).shape(), read(ms(5)).since), (shape, ms(5)));
        assert_eq!(read(ms(6)).shape(), Shape { burst: 0, ..shape });
    }

    #[test]
    fn memory_that_is_not_wanted_is_given_back() {
        let mut taken = Taken::default();
        taken.set(0, 100, 100);
        assert_eq!(taken.0.capacity(), 0);
        taken.set(10, 100, 100);
        let block = taken.0.as_ptr();
        taken.set(100, 60, 100);
        assert_eq!((taken.0.len(), taken.0.capacity(), taken.0.as_ptr()), (70, 100, block), "one block");
        taken.set(100, 60, 100);
        assert_eq!((taken.0.len(), taken.0.as_ptr()), (100, block));
        taken.set(100, 0, 100);
        assert_eq!(taken.0.as_ptr(), block);
        taken.set(40, 60, 100);
        assert_eq!((taken.0.len(), taken.0.capacity()), (40, 100));
        taken.set(0, 100, 100);
        assert_eq!(taken.0.capacity(), 0);
        let bytes = 2 * PIECE.len() as u64 + 1;
        taken.set(bytes, bytes, bytes);
        assert_eq!((taken.0.len() as u64, taken.0.capacity() as u64), (bytes, bytes), "several pieces");
    }
}
