//! The page as HTML. The same code makes the whole page and each of its updates.

use std::fmt::Write as _;

use redlock_core::Waiting;

use super::{
    snapshot::{Held, Node, Snapshot},
    text::{Escaped, time},
};

/// The whole page.
pub(super) fn page(client: &str, snapshot: &Snapshot) -> String {
    let client = Escaped(client);
    let state = state(snapshot);
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Locks of {client}</title>
<link rel="stylesheet" href="?style">
<script src="?script" defer></script>
</head>
<body>
<header>
<h1>Locks of <bdi>{client}</bdi></h1>
<p id="news" role="status"></p>
<noscript><p>Without scripts, this page shows the moment at which it was loaded.</p></noscript>
</header>
<main>{state}</main>
</body>
</html>
"#
    )
}

/// What changes: the inside of `main`.
pub(super) fn state(snapshot: &Snapshot) -> String {
    let mut html = verdict(snapshot);
    let nodes = snapshot.nodes.iter().map(node);
    table(&mut html, "nodes", "Nodes", snapshot.nodes.len(), &NODES, nodes);
    let held = snapshot.held.iter().map(held);
    table(&mut html, "held", "Held locks", snapshot.held_count, &HELD, held);
    let waiting = snapshot.waiting.iter().map(waiting);
    table(&mut html, "waiting", "Waiting for locks", snapshot.waiting_count, &WAITING, waiting);
    html
}

/// One sentence for a reader in a hurry. A screen reader says it when it changes.
fn verdict(snapshot: &Snapshot) -> String {
    let (votes, nodes, quorum) = (snapshot.votes(), snapshot.nodes.len(), snapshot.quorum());
    let (class, text) = if votes == nodes {
        ("good", format!("All {nodes} nodes give votes."))
    } else if votes >= quorum {
        ("fair", format!("{votes} of {nodes} nodes give votes: locks are given as usual."))
    } else {
        let text = format!("Only {votes} of {nodes} nodes give votes, and a lock takes {quorum}.");
        ("bad", text + " No new lock is given.")
    };
    format!("<p id=\"verdict\" role=\"status\" class=\"{class}\">{text}</p>\n")
}

const NODES: [&str; 4] = ["Node", "State", "Votes", "Deletes owed"];
const HELD: [&str; 5] = ["Resource", "Held for", "Valid for", "Votes", "Token"];
const WAITING: [&str; 3] = ["Resource", "Requests", "Longest wait"];

fn node(node: &Node) -> [String; 4] {
    let mut state = match &node.answer {
        Ok(latency) => format!("up, answers in {}", time(*latency)),
        Err(why) => format!("<strong>down</strong>: {}", Escaped(why)),
    };
    for line in &node.advice {
        _ = write!(state, "<br><strong>Advice</strong>: {}", Escaped(line));
    }
    let votes = match (&node.answer, node.sits_out) {
        (Ok(_), None) => "yes".to_owned(),
        (Ok(_), Some(left)) => format!("<strong>no</strong>, for {} more", time(left)),
        (Err(_), _) => "<strong>no</strong>".to_owned(),
    };
    [Escaped(&node.name).to_string(), state, votes, node.pending_cleanups.to_string()]
}

fn held(held: &Held) -> [String; 5] {
    [
        // Each apart, so that the direction of one does not reach the next.
        held.resources
            .iter()
            .map(|it| Escaped(it).to_string())
            .collect::<Vec<_>>()
            .join("</bdi>, <bdi>"),
        time(held.age),
        time(held.validity),
        held.votes.to_string(),
        held.token.map_or_else(|| "none".to_owned(), |token| token.to_string()),
    ]
}

fn waiting(waiting: &Waiting) -> [String; 3] {
    [
        Escaped(waiting.resource()).to_string(),
        waiting.requests().to_string(),
        time(waiting.longest()),
    ]
}

/// Writes a table under a heading, in a region of its own: a keyboard can scroll it. The first cell
/// of a row is its name. `count` rows exist, of which `rows` are shown.
fn table<const N: usize>(
    html: &mut String,
    id: &str,
    heading: &str,
    count: usize,
    columns: &[&str; N],
    rows: impl ExactSizeIterator<Item = [String; N]>,
) {
    let cut = match rows.len() {
        shown if shown < count => format!("<p>The first {shown} of {count} are shown.</p>\n"),
        _ => String::new(),
    };
    // Writing to a string does not fail.
    _ = write!(html, "<h2 id=\"{id}\">{heading} ({count})</h2>\n{cut}");
    if count == 0 {
        html.push_str("<p>None.</p>\n");
        return;
    }
    _ = writeln!(
        html,
        "<div class=\"table\" role=\"region\" aria-labelledby=\"{id}\" tabindex=\"0\">\n<table>"
    );
    html.push_str("<thead><tr>");
    for column in columns {
        _ = write!(html, "<th scope=\"col\">{column}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            _ = match index {
                0 => write!(html, "<th scope=\"row\"><bdi>{cell}</bdi></th>"),
                _ => write!(html, "<td>{cell}</td>"),
            };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_server_says_of_itself_is_text_too() {
        let nodes = vec![
            Node {
                name: "<a>".to_owned(),
                answer: Ok(Duration::from_millis(3)),
                sits_out: None,
                pending_cleanups: 2,
                advice: vec!["not <allkeys-lru>".to_owned()],
            },
            Node {
                name: "b".to_owned(),
                answer: Err("ERR <why>".to_owned()),
                sits_out: Some(Duration::from_secs(9)),
                pending_cleanups: 0,
                advice: Vec::new(),
            },
        ];
        let (held, waiting) = (Vec::new(), Vec::new());
        let snapshot = Snapshot { nodes, held, held_count: 0, waiting, waiting_count: 0 };
        let html = state(&snapshot);
        for row in [
            "<bdi>&lt;a&gt;</bdi></th><td>up, answers in 3 ms<br><strong>Advice</strong>: not \
             &lt;allkeys-lru&gt;</td><td>yes</td><td>2</td>",
            "<bdi>b</bdi></th><td><strong>down</strong>: ERR &lt;why&gt;</td><td><strong>no</strong>\
             </td><td>0</td>",
        ] {
            assert!(html.contains(row), "{row}\n{html}");
        }
        // Half of the nodes are no quorum.
        assert!(html.contains("class=\"bad\">Only 1 of 2 nodes give votes, and a lock takes 2."));
    }
}
