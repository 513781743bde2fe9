//! Real processes, real servers and real faults, and a log of every hold; `cargo xtask soak` calls
//! it. See `redlock_tests::soak`.

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    redlock_tests::soak::command::run(&arguments)
}
