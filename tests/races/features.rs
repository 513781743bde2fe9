//! What a build without features says. No race: it is here because no other suite builds redlock-core without
//! its features.

use redlock_core::{LockError, Redlock};

#[test]
fn tls_without_its_feature_names_the_feature() {
    for url in ["rediss://db.example:6380", "valkeys://db.example:6380"] {
        let error = Redlock::builder().nodes([url]).build().unwrap_err();
        let LockError::Config { problem, .. } = error else { panic!("{error}") };
        let names_both = problem.contains("db.example:6380") && problem.contains("`tls-rustls`");
        assert!(names_both, "{problem}");
    }
}
