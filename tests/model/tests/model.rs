//! The share of the model check that every run of the tests can afford: as many behaviours on every
//! machine, whatever time they take. `cargo xtask model` tries the others as well.

use redlock_model::{Case, Expected, Size, cases, check};

/// Checks these cases, and reports each unexpected result.
fn come_out(chosen: impl Fn(&Case) -> bool) {
    let chosen: Vec<Case> =
        cases().into_iter().filter(|case| case.size == Size::Small && chosen(case)).collect();
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

fn is_fenced(case: &Case) -> bool {
    case.name.starts_with("fence: ")
}

fn is_of_sets(case: &Case) -> bool {
    case.name.starts_with("sets: ")
}

fn is_of_one_lock(case: &Case) -> bool {
    !is_fenced(case) && !is_of_sets(case)
}

#[test]
fn the_whole_protocol_excludes_and_leaves_no_key() {
    come_out(|case| case.expected == Expected::Holds && is_of_one_lock(case));
}

#[test]
fn each_rule_left_out_has_its_counter_example() {
    come_out(|case| {
        case.expected != Expected::Holds && !case.rule.is_empty() && is_of_one_lock(case)
    });
}

#[test]
fn faults_beyond_the_assumptions_break_the_protocol() {
    come_out(|case| case.expected != Expected::Holds && case.rule.is_empty());
}

#[test]
fn fencing_tokens_are_disjoint_and_grow() {
    come_out(|case| case.expected == Expected::Holds && is_fenced(case));
}

#[test]
fn each_rule_of_fencing_left_out_has_its_counter_example() {
    come_out(|case| case.expected != Expected::Holds && is_fenced(case));
}

#[test]
fn sets_exclude_each_other_and_never_wait_in_a_circle() {
    come_out(|case| case.expected == Expected::Holds && is_of_sets(case));
}

#[test]
fn each_rule_of_sets_left_out_has_its_counter_example() {
    come_out(|case| case.expected != Expected::Holds && is_of_sets(case));
}
