//! Tries every behaviour of the protocol; `cargo xtask model` calls it. See
//! `redlock_tests::model`.

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    redlock_tests::model::command::run(&arguments)
}
