//! The files of one crate, and which of them names which.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path as FilePath, PathBuf},
};

use super::source::{Path, Source};

/// The files of a crate, named from its `src` on, and what each uses.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) uses: BTreeMap<String, BTreeSet<String>>,
}

/// A module that has a file of its own.
struct Module {
    file: String,
    source: Source,
}

/// The modules of a crate, by their paths from its root.
struct Crate {
    modules: BTreeMap<Path, Module>,
}

impl Graph {
    /// Follows the `mod` declarations of a crate from its `lib.rs`.
    pub(super) fn of_crate(src: &FilePath) -> Result<Self, String> {
        Self::read(&|file| {
            let file = src.join(file);
            match std::fs::read_to_string(&file) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(format!("{}: {error}", file.display())),
            }
        })
    }

    /// Like [`of_crate`](Self::of_crate), with the text of each file from `read`.
    pub(super) fn read(
        read: &dyn Fn(&FilePath) -> Result<Option<String>, String>,
    ) -> Result<Self, String> {
        let mut modules = BTreeMap::new();
        let mut open = vec![(Path::new(), PathBuf::from("lib.rs"), PathBuf::new())];
        while let Some((path, file, folder)) = open.pop() {
            let text = read(&file)?.ok_or_else(|| format!("{} is missing", file.display()))?;
            let source = Source::read(&text);
            for name in &source.modules {
                let within = folder.join(name);
                let (flat, nested) = (within.with_extension("rs"), within.join("mod.rs"));
                let file = if read(&flat)?.is_some() { flat } else { nested };
                open.push(([&path[..], std::slice::from_ref(name)].concat(), file, within));
            }
            let file = file.to_string_lossy().into_owned();
            modules.insert(path, Module { file, source });
        }
        Ok(Crate { modules }.graph())
    }

    /// The files that use each other in a circle, one list for each knot.
    pub(super) fn cycles(&self) -> Vec<Vec<&str>> {
        let mut cycles = Vec::new();
        let mut seen = BTreeSet::new();
        for file in self.uses.keys() {
            if seen.contains(file.as_str()) {
                continue;
            }
            let ahead = self.reachable(file);
            let knot: Vec<&str> = ahead
                .iter()
                .copied()
                .filter(|it| self.reachable(it).contains(&file.as_str()))
                .collect();
            if !knot.is_empty() {
                seen.extend(knot.iter().copied());
                cycles.push(self.in_order(file, &knot));
            }
        }
        cycles
    }

    fn reachable(&self, file: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![file];
        while let Some(file) = open.pop() {
            for used in self.uses.get(file).into_iter().flatten() {
                if reached.insert(used.as_str()) {
                    open.push(used);
                }
            }
        }
        reached
    }

    /// The shortest way from a file back to itself, then the rest of its knot.
    fn in_order<'a>(&'a self, file: &'a str, knot: &[&'a str]) -> Vec<&'a str> {
        let mut ways = vec![vec![file]];
        let mut seen = BTreeSet::new();
        let mut circle = Vec::new();
        while circle.is_empty() && !ways.is_empty() {
            let mut longer = Vec::new();
            for way in &ways {
                let last = way.last().copied().unwrap_or(file);
                for used in self.uses.get(last).into_iter().flatten() {
                    if used == file {
                        circle.clone_from(way);
                    } else if seen.insert(used.as_str()) {
                        longer.push([&way[..], &[used.as_str()]].concat());
                    }
                }
            }
            ways = longer;
        }
        let rest = knot.iter().filter(|it| !circle.contains(it)).copied().collect::<Vec<_>>();
        circle.into_iter().chain(rest).collect()
    }
}

impl Crate {
    fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        for (module, Module { file, source }) in &self.modules {
            let used = graph.uses.entry(file.clone()).or_default();
            // The root only declares and shows what is in other files.
            if module.is_empty() {
                continue;
            }
            let imported = source.imports.iter().map(|it| &it.path);
            for path in imported.chain(&source.paths) {
                if let Some(there) = self.absolute(module, path).and_then(|it| self.file(&it, 0))
                    && there != file
                {
                    used.insert(there.to_owned());
                }
            }
        }
        graph
    }

    /// The path from the root of the crate; none that leads out of it.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Path> {
        let first = path.first()?.as_str();
        let ups = path.iter().take_while(|it| *it == "super").count();
        let base = match first {
            "crate" => return Some(path[1..].to_vec()),
            "self" => return Some([module, &path[1..]].concat()),
            "super" => module.get(..module.len().checked_sub(ups)?)?,
            // A module that this file declares.
            name if self.modules.contains_key(&[module, &[name.to_owned()]].concat()) => module,
            _ => return None,
        };
        Some([base, &path[ups..]].concat())
    }

    /// The file that a path leads to, through whatever re-exports.
    fn file(&self, path: &[String], steps: usize) -> Option<&str> {
        let depth = (0..=path.len()).rev().find(|it| self.modules.contains_key(&path[..*it]))?;
        let (module, rest) = path.split_at(depth);
        let Module { file, source } = self.modules.get(module)?;
        let Some(name) = rest.first().filter(|name| !source.items.contains(name)) else {
            return Some(file);
        };
        // A re-export of itself leads nowhere.
        if steps > 8 {
            return None;
        }
        let lead = |to: &Path| {
            let to = self.absolute(module, to)?;
            self.file(&[&to[..], &rest[1..]].concat(), steps + 1)
        };
        if let Some(import) = source.imports.iter().find(|it| it.name == **name) {
            return lead(&import.path);
        }
        for glob in source.imports.iter().filter(|it| it.name == "*") {
            if let Some(to) = self.absolute(module, &glob.path)
                && let Some(Module { file, source }) = self.modules.get(&to)
                && source.items.contains(name)
            {
                return Some(file);
            }
        }
        // Something that a macro makes, or a crate.
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let files: BTreeMap<_, _> = files.iter().copied().collect();
        let read =
            |file: &FilePath| Ok(files.get(file.to_str().unwrap()).map(|it| (*it).to_owned()));
        Graph::read(&read).unwrap()
    }

    fn uses(graph: &Graph, file: &str) -> Vec<String> {
        graph.uses[file].iter().cloned().collect()
    }

    #[test]
    fn a_name_leads_to_the_file_that_defines_it_and_not_to_the_folder() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; pub use a::{One, Two}; pub use b::*;"),
            ("a/mod.rs", "mod one; mod two; pub use one::One; pub use two::*; pub struct Own;"),
            ("a/one.rs", "use super::Two; pub struct One;"),
            ("a/two.rs", "pub struct Two;"),
            ("b.rs", "use crate::a::{One, Own}; fn f() { crate::Two; g::h() } use std::io;"),
        ]);
        assert_eq!(uses(&graph, "a/one.rs"), ["a/two.rs"]);
        assert_eq!(uses(&graph, "b.rs"), ["a/mod.rs", "a/one.rs", "a/two.rs"]);
        assert_eq!(uses(&graph, "lib.rs"), [""; 0]);
        assert!(graph.cycles().is_empty());
    }

    #[test]
    fn a_circle_is_shown_in_its_order() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;"),
            ("c.rs", "fn f() { super::a::g() }"),
            ("d.rs", "use crate::a;"),
        ]);
        assert_eq!(graph.cycles(), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn a_test_module_is_no_part_of_the_crate() {
        let graph = graph(&[
            ("lib.rs", "mod a; #[cfg(test)] mod missing;"),
            ("a.rs", "#[cfg(test)] mod tests { use crate::missing; }"),
        ]);
        assert_eq!(uses(&graph, "a.rs"), [""; 0]);
    }
}
