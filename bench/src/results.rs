//! The measured figures, and their summary over the rounds.

use crate::{
    client::Which,
    metric::{Metric, Sample},
    stats,
};

/// One client in one case, over all rounds.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) workload: &'static str,
    pub(crate) case: String,
    pub(crate) client: Which,
    /// A sample a round.
    pub(crate) rounds: Vec<Sample>,
}

/// Everything that was measured, in the order of the tables.
#[derive(Debug, Default)]
pub(crate) struct Results {
    rows: Vec<Row>,
}

impl Row {
    fn of_round(&self, round: usize, metric: Metric) -> Option<f64> {
        let sample = self.rounds.get(round)?;
        sample.iter().find(|(of, _)| *of == metric).map(|(_, value)| *value)
    }

    /// The figures of all rounds that have one.
    pub(crate) fn values(&self, metric: Metric) -> Vec<f64> {
        (0..self.rounds.len()).filter_map(|round| self.of_round(round, metric)).collect()
    }

    /// The median over the rounds; the worst round where any trouble is too much.
    pub(crate) fn figure(&self, metric: Metric) -> Option<f64> {
        let values = self.values(metric);
        if metric.is_trouble() {
            return values.into_iter().reduce(f64::max);
        }
        stats::median(&values)
    }

    /// The median of the ratios to another client's figure in the same round: a cause that slowed
    /// the machine in a round slowed both clients.
    pub(crate) fn ratio(&self, to: &Self, metric: Metric) -> Option<f64> {
        let rounds = 0..self.rounds.len();
        let ratio = |round| Some(self.of_round(round, metric)? / to.of_round(round, metric)?);
        stats::median(&rounds.filter_map(ratio).collect::<Vec<_>>())
    }
}

impl Results {
    /// Adds the next round of a client in a case.
    pub(crate) fn add(
        &mut self,
        workload: &'static str,
        case: &str,
        client: Which,
        sample: Sample,
    ) {
        if sample.is_empty() {
            // It could not be measured here, and has said so.
            return;
        }
        let row = self
            .rows
            .iter_mut()
            .find(|row| row.workload == workload && row.case == case && row.client == client);
        match row {
            Some(row) => row.rounds.push(sample),
            None => self.rows.push(Row {
                workload,
                case: case.to_owned(),
                client,
                rounds: vec![sample],
            }),
        }
    }

    /// All rows.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The cases of a workload that were measured, in order.
    pub(crate) fn cases(&self, workload: &str) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        for row in self.rows.iter().filter(|row| row.workload == workload) {
            if !cases.contains(&row.case.as_str()) {
                cases.push(&row.case);
            }
        }
        cases
    }

    /// The clients of one case, in the order in which they are declared.
    pub(crate) fn clients(&self, workload: &str, case: &str) -> Vec<&Row> {
        Which::ALL.iter().filter_map(|which| self.row(workload, case, *which)).collect()
    }

    /// One client in one case.
    pub(crate) fn row(&self, workload: &str, case: &str, client: Which) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.workload == workload && row.case == case && row.client == client)
    }

    /// The measure for the other clients in a case: the mutex where a lock is held, bare redis-rs
    /// elsewhere.
    pub(crate) fn measure(&self, workload: &str, case: &str) -> Option<&Row> {
        let measure = |which| self.row(workload, case, which);
        measure(Which::Mutex).or_else(|| measure(Which::Bare))
    }

    /// How often two held one lock at once, over all clients.
    pub(crate) fn violations(&self) -> f64 {
        self.rows.iter().filter_map(|row| row.figure(Metric::Violations)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_each_round() {
        let mut results = Results::default();
        // The machine was ten times slower in the second round.
        for (bare, ours) in [(100.0, 110.0), (1000.0, 1100.0), (100.0, 120.0)] {
            results.add("latency", "5", Which::Bare, vec![(Metric::P50, bare)]);
            results.add("latency", "5", Which::Ours, vec![(Metric::P50, ours)]);
        }
        let row = |which| results.row("latency", "5", which).unwrap();
        let ratio = row(Which::Ours).ratio(row(Which::Bare), Metric::P50).unwrap();
        assert!((ratio - 1.1).abs() < 1e-9, "{ratio}");
        assert_eq!(row(Which::Ours).figure(Metric::P50), Some(120.0));
        assert_eq!(results.measure("latency", "5").map(|row| row.client), Some(Which::Bare));
        assert_eq!(row(Which::Ours).ratio(row(Which::Bare), Metric::P99), None);
    }

    #[test]
    fn a_failure_in_one_round_counts() {
        let mut results = Results::default();
        for violations in [0.0, 1.0, 0.0] {
            results.add("herd", "16", Which::Ours, vec![(Metric::Violations, violations)]);
        }
        assert_eq!(results.violations(), 1.0);
    }
}
