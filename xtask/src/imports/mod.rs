//! `cargo xtask imports`: imports run in one direction, and no file imports another that imports it.

mod graph;
mod layers;
mod source;
mod tokens;

use graph::Graph;
use layers::{CRATES, Layers};

use crate::shell::{Failure, workspace};

pub(crate) const ABOUT: &str = "checks that imports run in one direction";

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
    check()
}

/// Checks every crate that has layers.
pub(crate) fn check() -> Result<(), Failure> {
    println!("$ the direction of imports");
    let mut wrong = Vec::new();
    for (name, layers) in CRATES {
        let src = workspace().join(name).join("src");
        let graph = Graph::of_crate(&src).map_err(Failure::new)?;
        wrong.extend(problems(name, layers, &graph));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}

/// What is wrong, a line each.
fn problems(name: &str, layers: &Layers, graph: &Graph) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, used) in &graph.uses {
        if file == "lib.rs" {
            continue;
        }
        let Some((layer, at)) = layers.of(file) else {
            wrong.push(format!(
                "{name}/src/{file} is in no layer: add it to xtask/src/imports/layers.rs"
            ));
            continue;
        };
        for other in used {
            if let Some((above, over)) = layers.of(other)
                && over > at
            {
                wrong.push(format!(
                    "{name}/src/{file} imports {name}/src/{other}: `{layer}` is below `{above}`, and \
                     a layer imports only what is below it (xtask/src/imports/layers.rs)"
                ));
            }
        }
    }
    for cycle in graph.cycles() {
        if !layers.natural.iter().any(|pair| cycle.iter().all(|file| pair.contains(file))) {
            let files: Vec<_> = cycle.iter().map(|file| format!("{name}/src/{file}")).collect();
            wrong.push(format!(
                "{} import each other: give what several of them need a file of its own",
                files.join(", ")
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: Layers = Layers {
        below: &[("base", &["error.rs"]), ("node", &["node"]), ("op", &["op"])],
        natural: &[&["op/a.rs", "op/b.rs"]],
    };

    fn found(uses: &[(&str, &[&str])]) -> Vec<String> {
        let mut graph = Graph::default();
        for (file, used) in uses {
            let used = used.iter().map(|it| (*it).to_owned()).collect();
            graph.uses.insert((*file).to_owned(), used);
        }
        problems("core", &LAYERS, &graph)
    }

    #[test]
    fn an_import_from_above_names_both_files_and_the_rule() {
        assert!(found(&[("op/a.rs", &["node/mod.rs", "error.rs"]), ("error.rs", &[])]).is_empty());
        let wrong = found(&[("node/x.rs", &["op/a.rs"])]);
        assert!(wrong[0].contains("core/src/node/x.rs imports core/src/op/a.rs"), "{wrong:?}");
        assert!(wrong[0].contains("`node` is below `op`"), "{wrong:?}");
    }

    #[test]
    fn a_circle_is_an_error_unless_it_is_natural() {
        assert!(found(&[("op/a.rs", &["op/b.rs"]), ("op/b.rs", &["op/a.rs"])]).is_empty());
        let wrong = found(&[("node/a.rs", &["node/b.rs"]), ("node/b.rs", &["node/a.rs"])]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with("core/src/node/a.rs, core/src/node/b.rs import"), "{wrong:?}");
    }

    #[test]
    fn a_file_without_a_layer_is_an_error() {
        assert!(found(&[("new.rs", &[])])[0].contains("core/src/new.rs is in no layer"));
    }

    /// The layers are those of the files that there are: a name that is out of date says nothing.
    #[test]
    fn every_name_in_the_table_is_a_file_or_a_folder() {
        for (name, layers) in CRATES {
            let src = workspace().join(name).join("src");
            let files = layers.below.iter().flat_map(|(_, files)| *files);
            let natural = layers.natural.iter().flat_map(|files| *files);
            for file in files.chain(natural) {
                assert!(src.join(file).exists(), "{name}/src/{file}");
            }
        }
    }
}
