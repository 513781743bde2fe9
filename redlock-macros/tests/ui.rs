//! What a mistake looks like to its author. Each file in `ui/fail` holds one kind of mistake, the
//! `.stderr` beside it what rustc says.
//!
//! After a change, read the new messages as a user would, then:
//! `TRYBUILD=overwrite cargo test -p redlock-macros --test ui`.

/// rustc words its own messages anew from release to release; ours are in there with them.
#[rustversion::attr(not(stable(1.95)), ignore = "the messages are pinned to Rust 1.95")]
#[test]
fn mistakes_are_told_with_their_fix() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
