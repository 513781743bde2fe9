//! Tries every behaviour of the protocol; `cargo xtask model` calls it.

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    redlock_model::command::run(&arguments)
}
