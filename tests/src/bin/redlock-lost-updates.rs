//! What a lock alone cannot do; `cargo xtask lost-updates` calls it. See
//! `redlock_tests::lost_updates`.

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    redlock_tests::lost_updates::run(&arguments)
}
