//! How long one request takes.

use crate::quantity::{self, NotAllowed};
use rand::Rng;
use rand_distr::{Distribution, Exp1, StandardNormal, StandardUniform};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The distribution of the service time, written `fixed:50ms`, `uniform:40ms-650ms`,
/// `normal:250ms/125ms` (mean / standard deviation; a negative draw counts as zero),
/// `exponential:10ms` (mean), `lognormal:50ms/1.5` (mean / sigma of the logarithm) or
/// `mix:10ms/400ms/0.05` (short / long / share of the long ones). Each duration is 1 µs to 1 h,
/// sigma above 0 and at most 3, the share above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceTime {
    /// Always the same.
    Fixed(Duration),
    /// Uniform between the two.
    Uniform(Duration, Duration),
    /// Mean and standard deviation.
    Normal(Duration, Duration),
    /// The mean.
    Exponential(Duration),
    /// The mean, and the standard deviation of the logarithm.
    Lognormal(Duration, f64),
    /// Short, long, and the share of the long ones.
    Mix(Duration, Duration, f64),
}

const LEAST: Duration = Duration::from_micros(1);
const MOST: Duration = Duration::from_secs(3600);

impl ServiceTime {
    /// The next service time.
    pub fn draw(&self, rng: &mut impl Rng) -> Duration {
        match *self {
            Self::Fixed(time) => time,
            Self::Uniform(low, high) => {
                let share: f64 = StandardUniform.sample(rng);
                low + (high - low).mul_f64(share)
            }
            Self::Normal(mean, deviation) => {
                let z: f64 = StandardNormal.sample(rng);
                let seconds = mean.as_secs_f64() + z * deviation.as_secs_f64();
                Duration::try_from_secs_f64(seconds).unwrap_or_default()
            }
            Self::Exponential(mean) => {
                let x: f64 = Exp1.sample(rng);
                mean.mul_f64(x)
            }
            Self::Lognormal(mean, sigma) => {
                let z: f64 = StandardNormal.sample(rng);
                mean.mul_f64((sigma * z - sigma * sigma / 2.0).exp())
            }
            Self::Mix(short, long, share) => {
                let x: f64 = StandardUniform.sample(rng);
                if x < share { long } else { short }
            }
        }
    }

    /// The nominal mean.
    pub fn mean(&self) -> Duration {
        match *self {
            Self::Fixed(mean) | Self::Normal(mean, _) | Self::Exponential(mean) | Self::Lognormal(mean, _) => mean,
            Self::Uniform(low, high) => (low + high) / 2,
            Self::Mix(short, long, share) => short.mul_f64(1.0 - share) + long.mul_f64(share),
        }
    }

    /// The same distribution on a time axis stretched by `factor`.
    pub fn scaled(&self, factor: f64) -> Self {
        let scale = |time: Duration| time.mul_f64(factor);
        match *self {
            Self::Fixed(time) => Self::Fixed(scale(time)),
            Self::Uniform(low, high) => Self::Uniform(scale(low), scale(high)),
            Self::Normal(mean, deviation) => Self::Normal(scale(mean), scale(deviation)),
            Self::Exponential(mean) => Self::Exponential(scale(mean)),
            Self::Lognormal(mean, sigma) => Self::Lognormal(scale(mean), sigma),
            Self::Mix(short, long, share) => Self::Mix(scale(short), scale(long), share),
        }
    }
}

impl From<Duration> for ServiceTime {
    fn from(time: Duration) -> Self {
        Self::Fixed(time)
    }
}

impl FromStr for ServiceTime {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Self, NotAllowed> {
        let forms = || {
            let forms = "fixed:50ms, uniform:40ms-650ms, normal:250ms/125ms, exponential:10ms, lognormal:50ms/1.5 or \
                mix:10ms/400ms/0.05, each duration 1us to 1h, sigma above 0 and at most 3, the share above 0 and below 1";
            NotAllowed(forms.to_owned())
        };
        let time = |text: &str| quantity::duration(text, LEAST, MOST).map_err(|_| forms());
        let two = |text: &str, separator| -> Result<_, NotAllowed> {
            let (first, second) = text.split_once(separator).ok_or_else(forms)?;
            Ok((time(first)?, time(second)?))
        };
        match text.split_once(':').ok_or_else(forms)? {
            ("fixed", rest) => time(rest).map(Self::Fixed),
            ("uniform", rest) => match two(rest, '-')? {
                (low, high) if low <= high => Ok(Self::Uniform(low, high)),
                _ => Err(forms()),
            },
            ("normal", rest) => two(rest, '/').map(|(mean, deviation)| Self::Normal(mean, deviation)),
            ("exponential", rest) => time(rest).map(Self::Exponential),
            ("lognormal", rest) => {
                let (mean, sigma) = rest.split_once('/').ok_or_else(forms)?;
                let sigma = quantity::number(sigma, f64::MIN_POSITIVE, 3.0).map_err(|_| forms())?;
                Ok(Self::Lognormal(time(mean)?, sigma))
            }
            ("mix", rest) => {
                let (times, share) = rest.rsplit_once('/').ok_or_else(forms)?;
                let (short, long) = two(times, '/')?;
                let share = quantity::number(share, f64::MIN_POSITIVE, 1.0_f64.next_down()).map_err(|_| forms())?;
                Ok(Self::Mix(short, long, share))
            }
            _ => Err(forms()),
        }
    }
}

impl fmt::Display for ServiceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = humantime::format_duration;
        let whole = |time: Duration| {
            shown(Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))).to_string()
        };
        // humantime separates units with spaces and reads them without.
        let whole = |time| whole(time).replace(' ', "");
        match *self {
            Self::Fixed(time) => write!(f, "fixed:{}", whole(time)),
            Self::Uniform(low, high) => write!(f, "uniform:{}-{}", whole(low), whole(high)),
            Self::Normal(mean, deviation) => write!(f, "normal:{}/{}", whole(mean), whole(deviation)),
            Self::Exponential(mean) => write!(f, "exponential:{}", whole(mean)),
            Self::Lognormal(mean, sigma) => write!(f, "lognormal:{}/{sigma}", whole(mean)),
            Self::Mix(short, long, share) => write!(f, "mix:{}/{}/{share}", whole(short), whole(long)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    /// Mean and standard deviation of 100,000 draws, in milliseconds.
    fn moments(text: &str) -> (f64, f64) {
        let time: ServiceTime = text.parse().unwrap();
        let mut rng = StdRng::seed_from_u64(7);
        let draws: Vec<f64> = (0..100_000).map(|_| time.draw(&mut rng).as_secs_f64() * 1e3).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        (mean, variance.sqrt())
    }

    fn close(measured: (f64, f64), mean: f64, deviation: f64) {
        let near = |a: f64, b: f64| (a - b).abs() <= 0.02 * b.max(0.01);
        assert!(near(measured.0, mean) && near(measured.1, deviation), "{measured:?}, expected {mean} and {deviation}");
    }

    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        close(moments("fixed:50ms"), 50.0, 0.0);
        close(moments("uniform:40ms-640ms"), 340.0, 600.0 / 12f64.sqrt());
        close(moments("normal:250ms/50ms"), 250.0, 50.0);
        close(moments("exponential:10ms"), 10.0, 10.0);
        // The variance of a lognormal distribution is mean^2 * (exp(sigma^2) - 1).
        close(moments("lognormal:50ms/0.5"), 50.0, 50.0 * 0.25f64.exp_m1().sqrt());
        close(moments("mix:10ms/400ms/0.05"), 29.5, 390.0 * (0.05 * 0.95f64).sqrt());
    }

    #[test]
    fn parses_and_prints_each_kind_of_service_time() {
        for (text, twice) in [
            ("fixed:50ms", "fixed:100ms"),
            ("uniform:40ms-1s500ms", "uniform:80ms-3s"),
            ("normal:250ms/125ms", "normal:500ms/250ms"),
            ("exponential:10ms", "exponential:20ms"),
            ("lognormal:50ms/3", "lognormal:100ms/3"),
            ("mix:10ms/400ms/0.05", "mix:20ms/800ms/0.05"),
        ] {
            let time: ServiceTime = text.parse().unwrap();
            assert_eq!((time.to_string(), time.scaled(2.0).to_string()), (text.to_owned(), twice.to_owned()));
            assert_eq!(time.scaled(2.0).mean(), time.mean() * 2, "{text}");
        }
    }

    #[test]
    fn refuses_an_invalid_service_time() {
        for text in [
            "50ms",
            "fixed:0ms",
            "fixed:2h",
            "uniform:2s-1s",
            "normal:1s",
            "gamma:1s",
            "fixed:50",
            "lognormal:1s",
            "lognormal:1s/0",
            "lognormal:1s/3.1",
            "mix:1s/2s",
            "mix:1s/2s/0",
            "mix:1s/2s/1",
        ] {
            assert!(text.parse::<ServiceTime>().is_err(), "{text}");
        }
    }
}
