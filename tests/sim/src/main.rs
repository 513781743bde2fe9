//! Runs seeded schedules; `cargo xtask sim` calls it.

#[cfg(redlock_sim)]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    redlock_sim::command::run(&arguments)
}

#[cfg(not(redlock_sim))]
fn main() -> std::process::ExitCode {
    eprintln!("this program needs RUSTFLAGS=\"--cfg redlock_sim\": run `cargo xtask sim`");
    std::process::ExitCode::FAILURE
}
