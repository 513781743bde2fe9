//! What the README says in figures is what the last full benchmark has measured.

use super::read;

/// The rows of the first table under this heading of the page, each cell without spaces around it.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, text) = page.split_once(&format!("\n### {heading}\n")).unwrap();
    let lines = text.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|it| it.trim().to_owned()).collect())
        .collect()
}

/// The figure of a row that begins with these cells, in this column.
fn figure(table: &[Vec<String>], row: &[&str], column: &str) -> f64 {
    let at = table[0].iter().position(|it| it == column).unwrap();
    let found = table.iter().find(|it| it.iter().zip(row).all(|(cell, word)| cell == word));
    let found = found.unwrap_or_else(|| panic!("no row {row:?}"));
    found[at].parse().unwrap_or_else(|error| panic!("{row:?} {column}: {error}"))
}

/// Microseconds, as the README writes them.
fn time(micros: f64) -> String {
    match micros {
        micros if micros < 1e3 => format!("{micros:.0} µs"),
        micros if micros < 1e6 => format!("{:.0} ms", micros / 1e3),
        micros => format!("{:.1} s", micros / 1e6),
    }
}

#[test]
fn the_readme_has_the_figures_of_the_last_benchmark() {
    let (readme, page) = (read("README.md"), read("docs/benchmarks.md"));
    let words = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = |text: String| assert!(words.contains(&text), "the README does not say: {text}");

    let (peers, faults) = (table(&page, "peers"), table(&page, "faults"));
    let clients = ["ours", "rslock", "node-redlock", "redsync", "redisson"];
    let compared = |row: &str, cell: &dyn Fn(&str) -> String| {
        says(format!("| {row} | {} |", clients.map(cell).join(" | ")));
    };
    compared("lock and release on five nodes, p50", &|client| {
        time(figure(&peers, &["1 task", client], "p50 µs"))
    });
    compared("16 tasks on one lock, held for 1 ms: turns a second", &|client| {
        format!("{:.0}", figure(&peers, &["16 tasks", client], "per second"))
    });
    compared("the same: longest wait", &|client| {
        time(figure(&peers, &["16 tasks", client], "longest wait ms") * 1e3)
    });
    compared("lock and release while one node hangs, p50", &|client| {
        time(figure(&faults, &["one hung", client], "p50 µs"))
    });

    let targets = table(&page, "Targets");
    let target = |what: &str| figure(&targets, &[what], "figure");
    let both = |start: &str, end: &str| {
        let mut both = ["multi-thread", "current-thread"]
            .map(|runtime| target(&format!("{start}, {runtime}: {end}")));
        both.sort_by(f64::total_cmp);
        both
    };
    let [least, most] = both("latency, 5 nodes", "p50 x bare");
    says(format!(
        "takes {least:.2} to {most:.2} times as long as the same commands over bare redis-rs"
    ));
    let [least, _] = both("throughput, 512 tasks", "x bare");
    // From run to run, as the page says.
    says("With 512 tasks, a client takes about twice as many locks a second".to_owned());
    assert!((1.8..2.5).contains(&least), "about twice: {least}");
    let pace = target("contended, 128 tasks: part of what the hold allows");
    says(format!("take turns at {pace:.2} of the pace"));
    let commands = target("growth, 64 clients: commands sent for a turn");
    says(format!("costs {commands:.0} commands over all five nodes"));

    let (growth, far) = (table(&page, "growth"), table(&page, "far"));
    let far_away = "64 clients, nodes 5 ms away";
    for (table, case, told, client, name) in [
        (&growth, "100 processes", "100 processes", "ours", "redlock"),
        (&growth, "100 processes", "100 processes", "rslock", "rslock"),
        (&far, "5 ms, 64 clients", far_away, "ours", "redlock"),
        (&far, "5 ms, 64 clients", far_away, "bare", "random retries over redis-rs"),
    ] {
        let measured = |column: &str| figure(table, &[case, client], column);
        says(format!(
            "| {told} | {name} | {} | {:.1} s | {:.0} |",
            measured("per second"),
            measured("longest wait ms") / 1e3,
            measured("commands sent"),
        ));
    }

    let idle = target("growth: commands a second of a client that waits") * 3.0;
    assert!((1.7..2.3).contains(&idle), "two commands in three seconds: {idle}");
    let [least, most] = both("fenced latency, 5 nodes", "p50 x ours");
    let range = (1.2..1.3).contains(&least) && (1.35..1.45).contains(&most);
    assert!(range, "a quarter to two fifths: {least} to {most}");
}
