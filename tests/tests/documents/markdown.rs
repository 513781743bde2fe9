//! As much of Markdown as these documents use.

/// A page of the documents.
pub(crate) struct Page {
    /// From the folder of the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A fenced block.
pub(crate) struct Block<'a> {
    /// What stands behind the fence: the language, and more after commas.
    pub(crate) kind: &'a str,
    pub(crate) text: String,
    /// The line before the fence.
    pub(crate) before: &'a str,
}

impl Page {
    pub(crate) fn new(text: String, path: String) -> Self {
        Self { path, text }
    }

    /// The lines outside of fenced blocks.
    pub(crate) fn prose(&self) -> impl Iterator<Item = &str> {
        let mut inside = false;
        self.text.lines().filter(move |line| {
            let fence = line.starts_with("```");
            inside ^= fence;
            !inside && !fence
        })
    }

    pub(crate) fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut open: Option<Block<'_>> = None;
        let mut before = "";
        for line in self.text.lines() {
            match (line.strip_prefix("```"), open.take()) {
                (Some(kind), None) => open = Some(Block { kind, text: String::new(), before }),
                (Some(_), Some(block)) => blocks.push(block),
                (None, Some(mut block)) => {
                    block.text += line;
                    block.text.push('\n');
                    open = Some(block);
                }
                (None, None) => {}
            }
            before = line;
        }
        assert!(open.is_none(), "{}: a block that does not end", self.path);
        blocks
    }

    /// The anchors of its headings, as the forge makes them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let headings = self.prose().filter(|line| line.starts_with('#'));
        headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
    }

    /// What its links and pictures lead to.
    pub(crate) fn links(&self) -> Vec<String> {
        let prose: Vec<_> = self.prose().collect();
        let prose = without_code(&prose.join("\n"));
        let mut links = Vec::new();
        for part in prose.split("](").skip(1) {
            let link = part.split(')').next().unwrap_or_default();
            links.push(link.split_whitespace().next().unwrap_or_default().to_owned());
        }
        links
    }
}

/// A text without what stands between backticks.
pub(crate) fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn anchor(heading: &str) -> String {
    let heading = heading.to_lowercase();
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect()
}

#[test]
fn a_page_is_read() {
    let text = "# A `b`, c!\n\nSee [this](x.md#y) and `[no](z)`.\n<!-- from f -->\n```rust\n[a](b)\n```\nend";
    let page = Page::new(text.to_owned(), "p".to_owned());
    assert_eq!(page.anchors(), ["a-b-c"]);
    assert_eq!(page.links(), ["x.md#y"]);
    let blocks = page.blocks();
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].kind, "rust");
    assert_eq!(blocks[0].text, "[a](b)\n");
    assert_eq!(blocks[0].before, "<!-- from f -->");
}
