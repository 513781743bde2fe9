//! What one Rust file names: the modules that it declares, what it brings into scope, and the paths
//! in its code. Comments, strings and tests are left out.
//!
//! This reads tokens, not types: enough to know which file uses which.

use super::tokens::{Token, tokens};

/// A path as it is written, such as `crate`, `node`, `Job`.
pub(super) type Path = Vec<String>;

/// A name that a `use` brings into scope, and the path behind it. The name of a glob is `*`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) name: String,
    pub(super) path: Path,
}

/// What a file names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    /// The modules of other files.
    pub(super) modules: Vec<String>,
    pub(super) imports: Vec<Import>,
    /// The paths in code, outside of `use`.
    pub(super) paths: Vec<Path>,
    /// The items that it defines itself.
    pub(super) items: Vec<String>,
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let mut source = Self::default();
        let tokens = tokens(text);
        Reader { tokens: &tokens, at: 0 }.read(&mut source, 0);
        source
    }
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn takes(&mut self, mark: &str) -> bool {
        let is_there = matches!(self.peek(), Some(Token::Mark(it)) if *it == mark);
        self.at += usize::from(is_there);
        is_there
    }

    fn word(&mut self) -> Option<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Some(word)
            }
            _ => None,
        }
    }

    /// Reads to the end, or to the brace that closes an inline module. Paths in a module that is
    /// `inline` this deep begin with that many more `super`.
    fn read(&mut self, source: &mut Source, inline: usize) {
        let mut depth = 0_usize;
        while let Some(token) = self.next() {
            match token {
                Token::Mark("#") if self.is_test() => self.skip_item(),
                Token::Mark("{") => depth += 1,
                Token::Mark("}") if depth == 0 => return,
                Token::Mark("}") => depth -= 1,
                Token::Word(word) => match word.as_str() {
                    "use" => {
                        let mut found = Vec::new();
                        self.tree(&[], &mut found);
                        source.imports.extend(found.into_iter().filter_map(|it| outer(it, inline)));
                    }
                    // `pub(in path)` says for which files an item is, and uses none of them.
                    "pub"
                        if self.tokens[self.at..]
                            .starts_with(&[Token::Mark("("), Token::word("in")]) =>
                    {
                        while self.next().is_some_and(|it| it != Token::Mark(")")) {}
                    }
                    "mod" => {
                        let Some(name) = self.word() else { continue };
                        if self.takes("{") {
                            self.read(source, inline + 1);
                        } else {
                            source.modules.push(name);
                        }
                    }
                    "struct" | "enum" | "trait" | "fn" | "type" | "const" | "static" | "union"
                        if depth == 0 && inline == 0 =>
                    {
                        source.items.extend(self.word());
                    }
                    _ => {
                        let path = self.path(word);
                        if path.len() > 1 {
                            let import = Import { name: String::new(), path };
                            source.paths.extend(outer(import, inline).map(|it| it.path));
                        }
                    }
                },
                Token::Mark(_) => {}
            }
        }
    }

    /// The rest of a path in code.
    fn path(&mut self, first: String) -> Path {
        let mut path = vec![first];
        loop {
            let before = self.at;
            if !self.takes("::") {
                return path;
            }
            match self.word() {
                Some(word) => path.push(word),
                None => {
                    // Generic arguments, or the list of an import.
                    self.at = before + 1;
                    return path;
                }
            }
        }
    }

    /// The tree of a `use`, after `before`.
    fn tree(&mut self, before: &[String], found: &mut Vec<Import>) {
        self.takes("::");
        if self.takes("{") {
            while !self.takes("}") && self.at < self.tokens.len() {
                self.tree(before, found);
                self.takes(",");
            }
            return;
        }
        if self.takes("*") {
            found.push(Import { name: "*".to_owned(), path: before.to_vec() });
            return;
        }
        let Some(word) = self.word() else {
            self.at += 1;
            return;
        };
        let mut path = before.to_vec();
        // `a::{self}` is `a`.
        if word != "self" || before.is_empty() {
            path.push(word);
        }
        if self.takes("::") {
            return self.tree(&path, found);
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if matches!(self.peek(), Some(Token::Word(word)) if word == "as") {
            self.at += 1;
            name = self.word().unwrap_or_default();
        }
        found.push(Import { name, path });
    }

    /// Whether the attribute here is `#[cfg(test)]`, or one that asks for more beside.
    fn is_test(&mut self) -> bool {
        let begins = [Token::Mark("["), Token::word("cfg"), Token::Mark("(")];
        if !self.tokens[self.at.min(self.tokens.len())..].starts_with(&begins) {
            return false;
        }
        let end = self.tokens[self.at..].iter().position(|it| *it == Token::Mark("]"));
        let inside = &self.tokens[self.at..self.at + end.unwrap_or(0)];
        let is_test =
            inside.contains(&Token::word("test")) && !inside.contains(&Token::word("not"));
        if is_test {
            self.at += inside.len() + 1;
        }
        is_test
    }

    /// Passes over one item: to its semicolon, or to the end of its braces.
    fn skip_item(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.next() {
            match token {
                Token::Mark(";" | ",") if depth == 0 => return,
                Token::Mark("{" | "(" | "[") => depth += 1,
                Token::Mark("}") if depth == 1 => return,
                // The end of what the item is in.
                Token::Mark("}") if depth == 0 => {
                    self.at -= 1;
                    return;
                }
                Token::Mark("}" | ")" | "]") => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// A path of an inline module, as the file would write it; none that stays in the module.
fn outer(mut import: Import, inline: usize) -> Option<Import> {
    let ups = import.path.iter().take_while(|it| *it == "super").count();
    let is_of_crate = import.path.first().is_some_and(|it| it == "crate");
    if inline == 0 || is_of_crate {
        return Some(import);
    }
    if ups < inline {
        return None;
    }
    import.path.drain(..inline);
    if ups == inline {
        import.path.insert(0, "self".to_owned());
    }
    Some(import)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let Source { imports, paths, .. } = Source::read(text);
        imports.into_iter().map(|it| it.path).chain(paths).map(|path| path.join("::")).collect()
    }

    #[test]
    fn a_tree_of_imports_is_its_paths() {
        let text = "pub use crate::{a::{self, B as C, d::*}, e};\nuse super::f;";
        assert_eq!(paths(text), ["crate::a", "crate::a::B", "crate::a::d", "crate::e", "super::f"]);
        let names: Vec<_> = Source::read(text).imports.into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["a", "C", "*", "e", "f"]);
    }

    #[test]
    fn paths_in_code_and_in_macros_count() {
        let text = "fn f() -> crate::a::B { assert!(super::g(Vec::<u8>::new())); }";
        assert_eq!(paths(text), ["crate::a::B", "super::g", "Vec::new"][..2].to_vec());
    }

    #[test]
    fn comments_strings_and_tests_do_not_count() {
        let text = r##"
            // crate::a
            /* crate::b /* crate::c */ */
            const D: &str = "crate::d \" crate::e";
            const F: &str = r#"crate::f " crate::g"#;
            const H: char = '"';
            #[cfg(test)]
            use crate::h;
            #[cfg(test)]
            pub(crate) fn i() { crate::i::j() }
            #[cfg(test)]
            mod tests { use super::*; use crate::k; }
            struct L { #[cfg(test)] m: crate::m::M, n: crate::n::N }
            #[cfg(not(test))]
            use crate::o;
            fn p<'a>(it: &'a str) -> crate::q::Q<'a> {}
            pub(in crate::r::s) fn t() {}
        "##;
        assert_eq!(paths(text), ["crate::o", "crate::n::N", "crate::q::Q"]);
    }

    #[test]
    fn an_inline_module_speaks_from_one_level_below() {
        let text = "mod a { use super::B; use super::super::c; use self::d; use crate::e; }";
        assert_eq!(paths(text), ["self::B", "super::c", "crate::e"]);
        assert_eq!(Source::read("mod a { mod b; } mod c;").modules, ["b", "c"]);
    }

    #[test]
    fn what_a_file_defines_is_known_by_its_name() {
        let text = "pub struct A; impl A { fn b() {} } pub(crate) const C: u8 = 0; enum D {}";
        assert_eq!(Source::read(text).items, ["A", "C", "D"]);
    }
}
