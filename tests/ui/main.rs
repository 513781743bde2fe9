//! What a mistake looks like to its author, who uses the macro or a layer. Each file beside this one
//! holds one kind of mistake, the `.stderr` next to it what rustc says.
//!
//! After a change, read the new messages as a user would, then:
//! `TRYBUILD=overwrite cargo test -p redlock-ui`.

/// rustc words its own messages anew from release to release; ours are in there with them.
#[rustversion::attr(not(stable(1.95)), ignore = "the messages are pinned to Rust 1.95")]
#[test]
fn mistakes_are_told_with_their_fix() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("macros/*.rs");
    cases.compile_fail("layers/*.rs");
}
