//! How long a request takes on a server of speed 1.
//!
//! The caller brings the random numbers: the simulator's generator is not that of the mesh.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The distribution of the service time, written `fixed:50ms`, `uniform:40ms-650ms`,
/// `normal:250ms/125ms` (mean / standard deviation; a negative draw counts as zero),
/// `exponential:10ms` (mean), `lognormal:50ms/1.5` (mean / sigma of the logarithm),
/// `mix:10ms/400ms/0.05` (short / long / share of the long ones) or `pareto:10ms/1.5` (mean /
/// shape; the longest is [`SPAN`] times the shortest, so that mean and variance exist and a run of
/// some minutes sees the whole tail). Each duration is 1 µs to 1 h, sigma above 0 and at most 3,
/// the share above 0 and below 1, the shape above 1 and at most 10.
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
    /// The mean and the shape of a bounded Pareto distribution: the smaller the shape, the heavier
    /// the tail.
    Pareto(Duration, f64),
}

/// The longest Pareto draw, as a multiple of the shortest.
pub const SPAN: f64 = 1000.0;
const LEAST: Duration = Duration::from_micros(1);
const MOST: Duration = Duration::from_secs(3600);

/// The text is not a service time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a service time is fixed:50ms, uniform:40ms-650ms, normal:250ms/125ms, exponential:10ms, lognormal:50ms/1.5, mix:10ms/400ms/0.05 or pareto:10ms/1.5, each duration 1us to 1h, sigma above 0 and at most 3, the share above 0 and below 1, the shape above 1 and at most 10"
)]
pub struct NoServiceTime;

impl ServiceTime {
    /// The next service time. Each call of `unit` draws a number from 0 on, below 1, uniformly.
    pub fn draw(&self, mut unit: impl FnMut() -> f64) -> Duration {
        match *self {
            Self::Fixed(time) => time,
            Self::Uniform(low, high) => low + (high - low).mul_f64(unit()),
            Self::Normal(mean, deviation) => {
                let seconds = mean.as_secs_f64() + normal(unit) * deviation.as_secs_f64();
                Duration::try_from_secs_f64(seconds).unwrap_or_default()
            }
            Self::Exponential(mean) => exponential(mean, unit),
            Self::Lognormal(mean, sigma) => mean.mul_f64((sigma * normal(unit) - sigma * sigma / 2.0).exp()),
            Self::Mix(short, long, share) => {
                if unit() < share {
                    long
                } else {
                    short
                }
            }
            Self::Pareto(mean, shape) => {
                let shortest =
                    mean.as_secs_f64() / (shape / (shape - 1.0) * (1.0 - SPAN.powf(1.0 - shape)) / mass(shape));
                Duration::from_secs_f64(shortest * (1.0 - unit() * mass(shape)).powf(-1.0 / shape))
            }
        }
    }

    /// The nominal mean.
    pub fn mean(&self) -> Duration {
        match *self {
            Self::Fixed(mean)
            | Self::Normal(mean, _)
            | Self::Exponential(mean)
            | Self::Lognormal(mean, _)
            | Self::Pareto(mean, _) => mean,
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
            Self::Pareto(mean, shape) => Self::Pareto(scale(mean), shape),
        }
    }
}

impl From<Duration> for ServiceTime {
    fn from(time: Duration) -> Self {
        Self::Fixed(time)
    }
}

/// An exponentially distributed duration; `unit` draws a number from 0 on, below 1, uniformly.
pub fn exponential(mean: Duration, mut unit: impl FnMut() -> f64) -> Duration {
    mean.mul_f64(-(1.0 - unit()).ln())
}

/// A draw from the standard normal distribution (Box and Muller; the second number of the pair is
/// not kept).
fn normal(mut unit: impl FnMut() -> f64) -> f64 {
    (-2.0 * (1.0 - unit()).ln()).sqrt() * (std::f64::consts::TAU * unit()).cos()
}

/// The share of an unbounded Pareto distribution that lies within the span.
fn mass(shape: f64) -> f64 {
    1.0 - SPAN.powf(-shape)
}

/// A number for which `allowed` holds.
fn number(text: &str, allowed: fn(f64) -> bool) -> Result<f64, NoServiceTime> {
    text.parse().ok().filter(|&number| allowed(number)).ok_or(NoServiceTime)
}

impl FromStr for ServiceTime {
    type Err = NoServiceTime;

    fn from_str(text: &str) -> Result<Self, NoServiceTime> {
        let time = |text: &str| {
            let time = humantime::parse_duration(text).ok();
            time.filter(|time| (LEAST..=MOST).contains(time)).ok_or(NoServiceTime)
        };
        let (name, rest) = text.split_once(':').ok_or(NoServiceTime)?;
        let two = |separator| rest.split_once(separator).ok_or(NoServiceTime);
        match name {
            "fixed" => time(rest).map(Self::Fixed),
            "uniform" => {
                let (low, high) = two('-')?;
                let (low, high) = (time(low)?, time(high)?);
                if low <= high { Ok(Self::Uniform(low, high)) } else { Err(NoServiceTime) }
            }
            "normal" => two('/').and_then(|(mean, deviation)| Ok(Self::Normal(time(mean)?, time(deviation)?))),
            "exponential" => time(rest).map(Self::Exponential),
            "lognormal" => {
                let (mean, sigma) = two('/')?;
                Ok(Self::Lognormal(time(mean)?, number(sigma, |sigma| sigma > 0.0 && sigma <= 3.0)?))
            }
            "mix" => {
                let (short, rest) = two('/')?;
                let (long, share) = rest.split_once('/').ok_or(NoServiceTime)?;
                Ok(Self::Mix(time(short)?, time(long)?, number(share, |share| share > 0.0 && share < 1.0)?))
            }
            "pareto" => {
                let (mean, shape) = two('/')?;
                Ok(Self::Pareto(time(mean)?, number(shape, |shape| shape > 1.0 && shape <= 10.0)?))
            }
            _ => Err(NoServiceTime),
        }
    }
}

impl fmt::Display for ServiceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // humantime separates units with spaces and reads them without.
        let shown = |time: Duration| humantime::format_duration(time).to_string().replace(' ', "");
        match *self {
            Self::Fixed(time) => write!(f, "fixed:{}", shown(time)),
            Self::Uniform(low, high) => write!(f, "uniform:{}-{}", shown(low), shown(high)),
            Self::Normal(mean, deviation) => write!(f, "normal:{}/{}", shown(mean), shown(deviation)),
            Self::Exponential(mean) => write!(f, "exponential:{}", shown(mean)),
            Self::Lognormal(mean, sigma) => write!(f, "lognormal:{}/{sigma}", shown(mean)),
            Self::Mix(short, long, share) => write!(f, "mix:{}/{}/{share}", shown(short), shown(long)),
            Self::Pareto(mean, shape) => write!(f, "pareto:{}/{shape}", shown(mean)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 400,000 draws, in milliseconds.
    fn draws(time: &ServiceTime) -> Vec<f64> {
        let mut rng = fastrand::Rng::with_seed(7);
        (0..400_000).map(|_| time.draw(|| rng.f64()).as_secs_f64() * 1e3).collect()
    }

    fn moments(draws: &[f64]) -> (f64, f64) {
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        (mean, variance.sqrt())
    }

    fn close(text: &str, mean: f64, deviation: f64) {
        let time: ServiceTime = text.parse().unwrap();
        let measured = moments(&draws(&time));
        // Five standard errors of the mean.
        let near = (measured.0 - mean).abs() <= 5.0 * deviation / 400_000f64.sqrt() + 1e-6
            && (measured.1 - deviation).abs() <= 0.02 * deviation.max(0.01);
        assert!(near, "{text}: {measured:?}, not {mean}, {deviation}");
        assert_eq!(time.mean().as_secs_f64() * 1e3, mean, "{text}");
    }

    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        close("fixed:50ms", 50.0, 0.0);
        close("uniform:40ms-640ms", 340.0, 600.0 / 12f64.sqrt());
        close("normal:250ms/50ms", 250.0, 50.0);
        close("exponential:10ms", 10.0, 10.0);
        // The variance of a lognormal distribution is mean^2 * (exp(sigma^2) - 1).
        close("lognormal:50ms/0.5", 50.0, 50.0 * 0.25f64.exp_m1().sqrt());
        close("mix:10ms/400ms/0.05", 29.5, 390.0 * (0.05 * 0.95f64).sqrt());
        // The bound cuts off nothing of this light tail: shortest 10 * 5 / 6, variance shortest^2 *
        // 6 / (5^2 * 4).
        close("pareto:10ms/6", 10.0, (10.0 * 5.0 / 6.0) * (6.0f64 / 100.0).sqrt());
    }

    #[test]
    fn heavy_tailed_draws_keep_their_mean_and_their_bounds() {
        // For each shape: the shortest draw that gives this mean, and about four standard errors of
        // the mean of the draws.
        for (shape, shortest, off) in [(1.5, 3.442_076, 0.2), (1.01, 1.482_006, 0.3)] {
            let draws = draws(&ServiceTime::Pareto(Duration::from_millis(10), shape));
            let (mean, _) = moments(&draws);
            assert!((mean - 10.0).abs() < off, "{shape}: {mean}");
            let (least, most) = draws.iter().fold((f64::MAX, 0f64), |(a, b), &x| (a.min(x), b.max(x)));
            assert!((least / shortest - 1.0).abs() < 1e-4, "{shape}: {least}");
            assert!(most > 400.0 * shortest && most <= 1000.0 * shortest, "{shape}: {most}");
        }
    }

    #[test]
    fn parses_prints_and_stretches_each_kind_of_service_time() {
        for (text, twice) in [
            ("fixed:50ms", "fixed:100ms"),
            ("uniform:40ms-1s500ms", "uniform:80ms-3s"),
            ("normal:250ms/125ms", "normal:500ms/250ms"),
            ("exponential:10ms", "exponential:20ms"),
            ("lognormal:50ms/1.5", "lognormal:100ms/1.5"),
            ("lognormal:50ms/3", "lognormal:100ms/3"),
            ("mix:10ms/400ms/0.05", "mix:20ms/800ms/0.05"),
            ("pareto:10ms/1.5", "pareto:20ms/1.5"),
            ("pareto:10ms/10", "pareto:20ms/10"),
            ("fixed:1us", "fixed:2us"),
            ("fixed:1us500ns", "fixed:3us"),
        ] {
            let time: ServiceTime = text.parse().unwrap();
            assert_eq!((time.to_string(), time.scaled(2.0).to_string()), (text.to_owned(), twice.to_owned()));
            assert_eq!(time.scaled(2.0).mean(), time.mean() * 2, "{text}");
        }
        assert_eq!(ServiceTime::from(Duration::from_millis(50)), "fixed:50ms".parse().unwrap());
    }

    #[test]
    fn a_draw_takes_as_many_numbers_whatever_they_are() {
        let numbers = [
            ("fixed:50ms", 0),
            ("uniform:40ms-650ms", 1),
            ("normal:250ms/125ms", 2),
            ("exponential:10ms", 1),
            ("lognormal:50ms/1.5", 2),
            ("mix:10ms/400ms/0.05", 1),
            ("pareto:10ms/1.5", 1),
        ];
        for (text, expected) in numbers {
            for number in [0.0, 0.01, 0.5, 1.0_f64.next_down()] {
                let mut taken = 0;
                text.parse::<ServiceTime>().unwrap().draw(|| {
                    taken += 1;
                    number
                });
                assert_eq!(taken, expected, "{text}: {number}");
            }
        }
    }

    #[test]
    fn refuses_an_invalid_service_time() {
        for text in [
            "50ms",
            "fixed:0ms",
            "fixed:2h",
            "fixed:50",
            "uniform:2s-1s",
            "normal:1s",
            "gamma:1s",
            "pareto:1s/1",
            "pareto:1s/10.1",
            "pareto:1s/NaN",
            "lognormal:1s",
            "lognormal:1s/0",
            "lognormal:1s/3.1",
            "mix:1s/2s",
            "mix:1s/2s/0",
            "mix:1s/2s/1",
        ] {
            assert_eq!(text.parse::<ServiceTime>(), Err(NoServiceTime), "{text}");
        }
    }
}
