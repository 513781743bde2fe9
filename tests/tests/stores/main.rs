//! Stores that check fencing tokens, with holders that overlap as no lock would let them: no update
//! is lost, whatever the store does with transactions that run at the same time.

mod postgres;
mod sqlite;

/// What all holders lock, and what the stores keep under it.
const RESOURCE: &str = "stock:lamp";

/// One more than the number of tokens: a prime, so that the multiples of any number are all of them.
const TOKENS: i64 = 61;

/// How many holders work at once.
const HOLDERS: i64 = 6;

/// The tokens of one of the holders, out of order: it is overtaken by others, and by itself.
fn tokens_of(holder: i64) -> impl Iterator<Item = i64> {
    (1..TOKENS).filter(move |step| step % HOLDERS == holder).map(|step| step * 23 % TOKENS)
}

/// The result of holders that overlap: the tokens of accepted writes, in the order of the writes,
/// and the final count.
struct Outcome {
    accepted: Vec<i64>,
    counter: i64,
}

impl Outcome {
    /// Every accepted increment is there, and no holder came after a later one.
    fn check(&self) {
        assert_eq!(
            usize::try_from(self.counter).unwrap(),
            self.accepted.len(),
            "updates were lost"
        );
        assert!(self.accepted.is_sorted(), "{:?}", self.accepted);
        // Nothing can refuse the last holder.
        assert_eq!(self.accepted.last(), Some(&(TOKENS - 1)));
        // Each holder's own tokens are out of order, so that some must have been refused.
        assert!(self.accepted.len() < usize::try_from(TOKENS - 1).unwrap());
    }
}

/// The lines of the README stand alone there. In `docs/fencing.md` they are compiled and run.
#[test]
fn the_lines_of_the_readme_are_those_that_run() {
    let readme = include_str!("../../../README.md");
    let (_, block) = readme.split_once("```rust,ignore\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    assert_eq!(block.lines().count(), 7);
    // There they are part of a program.
    let lines = |text: &str| text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
    let page = lines(include_str!("../../../docs/fencing.md"));
    assert!(page.contains(&lines(block)), "{block}");
}
