//! A chart of grouped bars, as SVG.

use std::fmt::Write;

use super::table::number;
use crate::client::{Peer, Which};

/// Bars in groups: a group a case, a bar a client.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    /// What the height of a bar is.
    pub(super) unit: String,
    /// The clients, in the order of their bars.
    pub(super) series: Vec<Which>,
    /// The label of a group and the value of each client; `None` leaves a gap.
    pub(super) groups: Vec<(String, Vec<Option<f64>>)>,
    /// For values of very different sizes.
    pub(super) logarithmic: bool,
}

const HEIGHT: f64 = 220.0;
const TOP: f64 = 84.0;
const LEFT: f64 = 16.0;
const BAR: f64 = 34.0;
const GAP: f64 = 28.0;
/// Wide enough for the words above the bars.
const NARROWEST: f64 = 560.0;

/// The color of a client, the same in all charts. They are told apart in grey and by most eyes; each
/// bar has its number too.
fn color(which: Which) -> &'static str {
    match which {
        Which::Mutex => "#9aa0a6",
        Which::Ours => "#d1495b",
        Which::Fenced => "#f28482",
        Which::Rslock => "#8d6a9f",
        Which::Bare => "#2e6f95",
        Which::Sockets => "#66a182",
        Which::Queued => "#edae49",
        Which::Set => "#9d0208",
        Which::Reader => "#4361ee",
        Which::Mixed => "#4895ef",
        Which::Permit => "#7209b7",
        Which::Nested => "#80b918",
        Which::Moved => "#ff006e",
        Which::Leader => "#3a5a40",
        Which::Ordered => "#f4a261",
        Which::Peer(Peer::NodeRedlock) => "#6c757d",
        Which::Peer(Peer::Redsync) => "#00798c",
        Which::Peer(Peer::Redisson) => "#bc6c25",
    }
}

impl Chart {
    /// The text of an SVG file.
    pub(super) fn svg(&self) -> String {
        let group = BAR * self.series.len() as f64 + GAP;
        let labels =
            8.0 * self.groups.iter().map(|(label, _)| label.len()).max().unwrap_or(0) as f64;
        // Groups are wider when there are few, so that they fill the chart.
        let groups = self.groups.len().max(1) as f64;
        let group = group.max(labels).max((NARROWEST - 2.0 * LEFT) / groups);
        let bar = (group - GAP) / self.series.len().max(1) as f64;
        let width = 2.0 * LEFT + group * groups;
        let bottom = TOP + HEIGHT;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {:.0}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{}</text>\n\
             <text x=\"{LEFT}\" y=\"40\" fill=\"#555\">{}</text>\n",
            bottom + 34.0,
            escape(&self.title),
            escape(&self.title),
            escape(&self.unit),
        );
        self.legend(&mut svg);
        for (index, (label, values)) in self.groups.iter().enumerate() {
            let left = LEFT + group * index as f64;
            let first = left + GAP / 2.0;
            for (series, (which, value)) in self.series.iter().zip(values).enumerate() {
                let Some(value) = value else { continue };
                let height = HEIGHT * self.part(*value);
                let (x, y) = (first + bar * series as f64, bottom - height);
                let color = color(*which);
                // Writing to a String cannot fail.
                let _ = writeln!(
                    svg,
                    "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" \
                     fill=\"{color}\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" \
                     text-anchor=\"middle\">{}</text>",
                    x + 2.0,
                    bar - 4.0,
                    x + bar / 2.0,
                    y - 4.0,
                    short(*value),
                );
            }
            let middle = left + group / 2.0;
            let _ = writeln!(
                svg,
                "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                escape(label),
            );
        }
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{:.1}\" y2=\"{bottom}\" stroke=\"#333\"/>\n</svg>",
            width - LEFT,
        );
        svg
    }

    fn legend(&self, svg: &mut String) {
        let mut left = LEFT;
        for which in &self.series {
            let name = which.name();
            let color = color(*which);
            let _ = writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"49\" width=\"10\" height=\"10\" fill=\"{color}\"/>\n\
                 <text x=\"{:.1}\" y=\"58\">{}</text>",
                left + 14.0,
                escape(name),
            );
            left += 7.0 * name.len() as f64 + 24.0;
        }
    }

    /// How high a bar is, as a part of the highest.
    fn part(&self, value: f64) -> f64 {
        let values = || self.groups.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let highest = values().fold(f64::MIN_POSITIVE, f64::max);
        if !self.logarithmic {
            return value.max(0.0) / highest;
        }
        // The lowest bar stays visible: it is half as high as the part below it.
        let lowest = values().filter(|value| *value > 0.0).fold(highest, f64::min) / 2.0;
        if value <= lowest { 0.0 } else { (value / lowest).ln() / (highest / lowest).ln() }
    }
}

/// What a bar says: seven digits would run into the next bar.
fn short(value: f64) -> String {
    if value < 1e6 { number(value) } else { format!("{} M", number(value / 1e6)) }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn millions_are_short() {
        assert_eq!([999_000.0, 9_104_330.0].map(short), ["999000", "9.10 M"]);
    }

    fn chart(logarithmic: bool) -> Chart {
        Chart {
            title: "a < b".into(),
            unit: "per second".into(),
            series: vec![Which::Ours, Which::Bare],
            groups: vec![
                ("one".into(), vec![Some(10.0), Some(1000.0)]),
                ("two".into(), vec![None, Some(100.0)]),
            ],
            logarithmic,
        }
    }

    #[test]
    fn the_highest_bar_fills_the_chart_and_a_gap_has_none() {
        let svg = chart(false).svg();
        assert!(svg.contains("height=\"220.0\"") && svg.contains("height=\"2.2\""), "{svg}");
        let bars = svg.matches("<rect x=").count() - 2;
        assert_eq!(bars, 3, "{svg}");
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn the_bars_of_few_groups_fill_the_chart() {
        let chart =
            Chart { groups: vec![("one".into(), vec![Some(1.0), Some(2.0)])], ..chart(false) };
        let svg = chart.svg();
        assert!(svg.contains("viewBox=\"0 0 560 "), "{svg}");
        assert!(svg.contains("width=\"246.0\""), "{svg}");
    }

    #[test]
    fn a_client_has_one_color_whatever_stands_beside_it() {
        let alone = Chart {
            series: vec![Which::Bare],
            groups: vec![("one".into(), vec![Some(1.0)])],
            ..chart(false)
        };
        for svg in [alone.svg(), chart(false).svg()] {
            assert!(svg.contains(color(Which::Bare)), "{svg}");
        }
        let colors: BTreeSet<_> = Which::ALL.into_iter().map(color).collect();
        assert_eq!(colors.len(), Which::ALL.len());
    }

    #[test]
    fn logarithmic_bars_keep_the_lowest_in_sight() {
        let chart = chart(true);
        assert_eq!(chart.part(1000.0), 1.0);
        assert!(chart.part(10.0) > 0.1 && chart.part(100.0) < 0.7);
    }
}
