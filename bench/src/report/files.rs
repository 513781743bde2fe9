//! The files of a run.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};

use super::{plots, table, targets};
use crate::{
    metric::Metric,
    results::{Results, Row},
    workload,
};

/// Between these lines of the page is what the last run found.
const BEGIN: &str = "<!-- results: written by `cargo xtask bench` -->";
const END: &str = "<!-- end of results -->";

/// What a run was made on.
#[derive(Debug)]
pub(crate) struct About {
    /// What redis-server says of itself.
    pub(crate) redis: String,
    /// Not a full run.
    pub(crate) quick: bool,
}

/// Writes `results.json` and the plots into a directory, and the tables into the page beside it
/// of the same name, if there is one. Returns what was written.
pub(crate) fn write(
    directory: &Path,
    results: &Results,
    about: &About,
) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(directory)?;
    let mut written = Vec::new();
    let mut write = |path: PathBuf, text: String| {
        fs::write(&path, text)?;
        written.push(path);
        io::Result::Ok(())
    };
    let json = serde_json::to_string_pretty(&as_json(results, about))?;
    write(directory.join("results.json"), json + "\n")?;
    let plots = plots::draw(results);
    for (file, svg) in &plots {
        write(directory.join(file), svg.clone())?;
    }
    let page = directory.with_extension("md");
    if let Ok(text) = fs::read_to_string(&page)
        && let Some(text) = replace(&text, &section(results, about, directory, &plots))
    {
        write(page, text)?;
    }
    Ok(written)
}

fn as_json(results: &Results, about: &About) -> Value {
    let rows: Vec<Value> = results.rows().iter().map(|row| row_as_json(results, row)).collect();
    let targets: Vec<Value> = targets::targets(results)
        .into_iter()
        .map(|target| {
            json!({
                "what": target.what,
                "figure": target.figure,
                "target": target.limit.to_string(),
                "reached": target.figure.map(|figure| target.limit.holds(figure)),
            })
        })
        .collect();
    json!({
        "quick": about.quick,
        "seconds_since_1970": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs()),
        "machine": machine(),
        "redis": about.redis,
        "results": rows,
        "targets": targets,
    })
}

fn row_as_json(results: &Results, row: &Row) -> Value {
    let measure = results.measure(row.workload, &row.case);
    let mut figures = Map::new();
    for metric in Metric::all() {
        let rounds = row.values(metric);
        if rounds.is_empty() {
            continue;
        }
        let mut figure = json!({ "figure": row.figure(metric), "rounds": rounds });
        if let Some(measure) = measure.filter(|_| metric.is_relative()) {
            figure[format!("by_{}", measure.client.name())] = json!(row.ratio(measure, metric));
        }
        figures.insert(metric.key().to_owned(), figure);
    }
    json!({
        "workload": row.workload,
        "case": row.case,
        "client": row.client.name(),
        "figures": figures,
    })
}

/// The processor and the number of its cores that this program may use.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!("{}, {cores} cores", model.map_or("unknown processor", |(_, model)| model.trim()))
}

fn section(
    results: &Results,
    about: &About,
    directory: &Path,
    plots: &[(&'static str, String)],
) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let kind = if about.quick { "A quick run" } else { "A full run" };
    let mut text = format!("{kind} on {}; {}.\n\n", machine(), about.redis);
    text += &format!("### Targets\n\n{}\n", table::targets(results, false));
    for workload in workload::ALL {
        if results.cases(workload.name).is_empty() {
            continue;
        }
        let figures = table::results(results, workload.name);
        text += &format!("### {}\n\n{}.\n\n{figures}\n", workload.name, sentence(workload.about));
        for (file, _) in plots.iter().filter(|(file, _)| file.starts_with(workload.name)) {
            text += &format!("![{}]({name}/{file})\n\n", file.trim_end_matches(".svg"));
        }
    }
    text
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// The page with another text between the two lines; `None` when it does not have them.
fn replace(page: &str, section: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{section}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Which;

    #[test]
    fn the_text_between_the_marks_is_replaced_and_no_other() {
        let page = format!("# Page\n\n{BEGIN}\nold\n{END}\n\nmore\n");
        let replaced = replace(&page, "new\n").unwrap();
        assert_eq!(replaced, format!("# Page\n\n{BEGIN}\n\nnew\n{END}\n\nmore\n"));
        assert_eq!(replace("# Page\n", "new\n"), None);
    }

    #[test]
    fn a_row_tells_its_rounds_and_its_ratio() {
        let mut results = Results::default();
        for (which, p50) in [(Which::Bare, 100.0), (Which::Ours, 150.0)] {
            results.add("latency", "5 nodes", which, vec![(Metric::P50, p50)]);
        }
        let json = as_json(&results, &About { redis: "redis".into(), quick: true });
        let ours = &json["results"][1];
        assert_eq!(ours["client"], "ours");
        assert_eq!(
            ours["figures"]["p50_us"],
            json!({ "figure": 150.0, "rounds": [150.0], "by_bare": 1.5 })
        );
    }
}
