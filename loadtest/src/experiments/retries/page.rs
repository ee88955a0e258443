//! The table, for the terminal and for the docs.

use super::cases::Case;
use super::testbed::{Course, WAYS, Way};
use std::fmt;

/// The results of each case.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<(Case, Vec<Course>)>,
}

impl Table {
    /// Adds the results of a case, in the order of [`WAYS`].
    pub fn add(&mut self, case: Case, courses: Vec<Course>) {
        self.rows.push((case, courses));
    }

    /// The cases in which an application received more or fewer requests than with stock Envoy, or
    /// the client got another answer.
    pub fn differences(&self) -> Vec<String> {
        let differs = |(case, courses): &(Case, Vec<Course>)| {
            let seen = |course: &Course| (course.attempts, course.status);
            let stock = courses.first().map(seen);
            WAYS.iter()
                .zip(courses)
                .filter(|(_, course)| Some(seen(course)) != stock)
                .map(|(way, course)| format!("{}, {}: {course:?}", case.name, way.name()))
                .collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(differs).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "| case | {} |", WAYS.map(Way::name).join(" | "))?;
        writeln!(to, "|---{}|", "|---".repeat(WAYS.len()))?;
        for (case, courses) in &self.rows {
            let cells: Vec<String> = courses
                .iter()
                .map(|Course { attempts, status, took }| {
                    format!("{attempts}, {}, {:.2} s", status.as_u16(), took.as_secs_f64())
                })
                .collect();
            writeln!(to, "| {} | {} |", case.name, cells.join(" | "))?;
        }
        Ok(())
    }
}
