//! The share of the model check that every run of the tests can afford: as many behaviours on every
//! machine, whatever time they take. `cargo xtask model` tries the others as well.

use redlock_model::{Case, Expected, Size, cases, check};

/// Checks these cases, and reports each unexpected result.
fn come_out(family: &str, chosen: impl Fn(&Case) -> bool) {
    let is_chosen =
        |case: &Case| case.size == Size::Small && case.family() == family && chosen(case);
    let chosen: Vec<Case> = cases().into_iter().filter(is_chosen).collect();
    assert!(!chosen.is_empty());
    for case in chosen {
        let outcome = check(&case, 1);
        assert!(
            outcome.is_as_expected(&case),
            "{} should come out as {:?}, after {} states: {outcome:#?}",
            case.name,
            case.expected,
            outcome.unique,
        );
    }
}

/// Nothing is left out, and nothing breaks.
fn holds(family: &str) {
    come_out(family, |case| case.expected == Expected::Holds);
}

/// Without any one of its rules, something breaks.
fn has_counter_examples(family: &str) {
    come_out(family, |case| case.expected != Expected::Holds && !case.rule.is_empty());
}

#[test]
fn the_whole_protocol_excludes_and_leaves_no_key() {
    holds("");
}

#[test]
fn each_rule_left_out_has_its_counter_example() {
    has_counter_examples("");
}

#[test]
fn faults_beyond_the_assumptions_break_the_protocol() {
    come_out("", |case| case.expected != Expected::Holds && case.rule.is_empty());
}

#[test]
fn fencing_tokens_are_disjoint_and_grow() {
    holds("fence");
}

#[test]
fn each_rule_of_fencing_left_out_has_its_counter_example() {
    has_counter_examples("fence");
}

#[test]
fn sets_exclude_each_other_and_never_wait_in_a_circle() {
    holds("sets");
}

#[test]
fn each_rule_of_sets_left_out_has_its_counter_example() {
    has_counter_examples("sets");
}

#[test]
fn writers_exclude_readers_and_each_other() {
    holds("readers");
}

#[test]
fn each_rule_of_readers_left_out_has_its_counter_example() {
    has_counter_examples("readers");
}

#[test]
fn a_lock_that_is_handed_over_has_one_holder() {
    holds("adopt");
}

#[test]
fn each_rule_of_adoption_left_out_has_its_counter_example() {
    has_counter_examples("adopt");
}
