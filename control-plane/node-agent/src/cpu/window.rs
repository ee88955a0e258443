//! The mean of the last values.

use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Window {
    values: VecDeque<f64>,
    length: usize,
}

impl Window {
    pub(crate) fn new(length: usize) -> Self {
        Self { values: VecDeque::new(), length: length.max(1) }
    }

    pub(crate) fn set_length(&mut self, length: usize) {
        self.length = length.max(1);
        while self.values.len() > self.length {
            self.values.pop_front();
        }
    }

    pub(crate) fn push(&mut self, value: f64) {
        self.values.push_back(value);
        self.set_length(self.length);
    }

    /// 0 without values.
    pub(crate) fn mean(&self) -> f64 {
        if self.values.is_empty() { 0.0 } else { self.values.iter().sum::<f64>() / self.values.len() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_the_last_values() {
        let mut window = Window::new(2);
        let mut means = vec![window.mean()];
        for value in [4.0, 2.0, 0.0, 6.0] {
            window.push(value);
            means.push(window.mean());
        }
        assert_eq!(means, [0.0, 4.0, 3.0, 1.0, 3.0]);
        window.set_length(1);
        assert_eq!(window.mean(), 6.0, "the last one stays");
        window.set_length(3);
        window.push(0.0);
        assert_eq!(window.mean(), 3.0);
        let mut least = Window::new(0);
        least.push(1.0);
        least.push(5.0);
        assert_eq!(least.mean(), 5.0);
    }
}
