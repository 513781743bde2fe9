//! Tables, as Markdown: readable in a terminal and in a page.

use super::targets::{self, Target};
use crate::{
    client::Which,
    metric::Metric,
    results::{Results, Row},
};

/// The figures of one workload: a line for each client in each case.
pub(crate) fn results(results: &Results, workload: &str) -> String {
    let rows: Vec<&Row> = results.rows().iter().filter(|row| row.workload == workload).collect();
    let shown = |metric: &Metric| {
        let figures: Vec<f64> = rows.iter().filter_map(|row| row.figure(*metric)).collect();
        let quiet = metric.is_trouble() && figures.iter().all(|figure| *figure == 0.0);
        !figures.is_empty() && !quiet
    };
    let metrics: Vec<Metric> = Metric::all().filter(shown).collect();
    let cases = results.cases(workload);
    let measure = cases.iter().find_map(|case| results.measure(workload, case));

    let mut head = vec!["case".to_owned(), "client".to_owned()];
    for metric in &metrics {
        head.push(metric.title().to_owned());
        if let Some(measure) = measure.filter(|_| metric.is_relative()) {
            head.push(ratio_title(measure.client));
        }
    }
    let mut lines = vec![head];
    for case in cases {
        for row in results.clients(workload, case) {
            let mut line = vec![case.to_owned(), row.client.name().to_owned()];
            for metric in &metrics {
                line.push(row.figure(*metric).map_or_else(String::new, number));
                if measure.is_some() && metric.is_relative() {
                    let measure = results.measure(workload, case);
                    let ratio = measure.and_then(|measure| row.ratio(measure, *metric));
                    line.push(ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
                }
            }
            lines.push(line);
        }
    }
    markdown(&lines)
}

/// Each target with the figure that counts for it; those that were not measured only if asked.
pub(crate) fn targets(results: &Results, measured_only: bool) -> String {
    let head = ["what", "figure", "target", "reached"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for Target { what, figure, limit } in targets::targets(results) {
        if measured_only && figure.is_none() {
            continue;
        }
        let (figure, reached) = match figure {
            Some(figure) => (number(figure), if limit.holds(figure) { "yes" } else { "no" }),
            None => (String::new(), "not measured"),
        };
        lines.push(vec![what, figure, limit.to_string(), reached.to_owned()]);
    }
    markdown(&lines)
}

fn ratio_title(measure: Which) -> String {
    format!("x {}", measure.name())
}

/// Three digits or more, and no more after the point than that takes.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.0 => 0,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn markdown(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0).max(3)).collect();
    // Words to the left, numbers to the right.
    let is_number = |column: usize| {
        let mut cells = lines.iter().skip(1).filter_map(|line| line.get(column));
        cells.all(|cell| cell.is_empty() || cell.parse::<f64>().is_ok())
    };
    let right: Vec<bool> = (0..columns).map(is_number).collect();

    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        for ((cell, &width), &right) in line.iter().zip(&widths).zip(&right) {
            text +=
                &if right { format!("| {cell:>width$} ") } else { format!("| {cell:<width$} ") };
        }
        text += "|\n";
        if index == 0 {
            for (&width, &right) in widths.iter().zip(&right) {
                let dashes = "-".repeat(width - usize::from(right));
                text += &if right { format!("| {dashes}: ") } else { format!("| {dashes} ") };
            }
            text += "|\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let shown = [12_345.6, 123.4, 12.34, 1.234, 0.1234, 0.0].map(number);
        assert_eq!(shown, ["12346", "123", "12.3", "1.23", "0.123", "0"]);
    }

    #[test]
    fn a_table_has_a_line_a_client_and_leaves_out_what_never_happened() {
        let mut all = Results::default();
        for (which, p50) in [(Which::Bare, 100.0), (Which::Ours, 150.0)] {
            let sample = vec![(Metric::P50, p50), (Metric::Failures, 0.0)];
            all.add("latency", "5 nodes", which, sample);
        }
        assert_eq!(
            results(&all, "latency"),
            "| case    | client | p50 µs | x bare |\n\
             | ------- | ------ | -----: | -----: |\n\
             | 5 nodes | ours   |    150 |   1.50 |\n\
             | 5 nodes | bare   |    100 |   1.00 |\n"
        );
    }
}
