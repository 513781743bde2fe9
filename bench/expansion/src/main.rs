//! What an annotated function costs to build, beside what `#[tracing::instrument]` costs.
//!
//! `cargo run --manifest-path bench/expansion/Cargo.toml [functions] [rounds]` writes three
//! programs with the same functions (200), plain, under `#[tracing::instrument]` and under
//! `#[redlock]`, and builds each in release mode, one after the other in each round (3). The
//! dependencies are built before. It prints processor time and the size of the stripped program,
//! medians over the rounds. Linux only: it reads `/proc`.

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What is written above each function, and with what the program starts.
struct Kind {
    name: &'static str,
    attribute: &'static str,
    setup: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind { name: "plain", attribute: "", setup: "" },
    Kind { name: "instrument", attribute: "#[tracing::instrument]", setup: "" },
    Kind {
        name: "redlock",
        attribute: "#[redlock(resource = \"order:{id}\", ttl = \"30s\")]",
        setup: "redlock_core::pools::install(\"default\", redlock_core::Redlock::in_memory(3)).unwrap();",
    },
];

/// All programs have it, so that they differ in the attribute only.
const PRELUDE: &str = "
#![allow(unused_imports)]
use redlock_core::{LockError, Redlock, redlock};

#[derive(Debug)]
pub enum AppError {
    Locked(LockError),
    Own(String),
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Locked(error)
    }
}

async fn step(id: u64) -> Result<u64, AppError> {
    tokio::task::yield_now().await;
    if id == 0 { Err(AppError::Own(\"zero\".into())) } else { Ok(id) }
}
";

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let functions = arguments.next().map_or(Ok(200), |given| given.parse())?;
    let rounds = arguments.next().map_or(Ok(3), |given| given.parse())?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("no repository")?;
    let place = root.join("target/expansion");
    for kind in &KINDS {
        write(kind, functions, root, &place)?;
        build(kind, &place)?;
    }
    let mut samples: Vec<Vec<f64>> = KINDS.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for at in 0..KINDS.len() {
            let at = (at + round) % KINDS.len();
            // Cargo builds again what is newer than what it built.
            fs::File::options()
                .write(true)
                .open(source(&KINDS[at], &place))?
                .set_modified(std::time::SystemTime::now())?;
            let before = processor_time()?;
            build(&KINDS[at], &place)?;
            samples[at].push(processor_time()? - before);
        }
    }
    println!("{functions} functions, {rounds} rounds");
    println!("{:12} {:>14} {:>10}", "", "processor time", "size");
    for (kind, samples) in KINDS.iter().zip(&mut samples) {
        samples.sort_by(f64::total_cmp);
        let median = samples.get(samples.len() / 2).ok_or("no rounds")?;
        let size = fs::metadata(program(kind, &place))?.len() as f64 / 1e6;
        println!("{:12} {median:>12.1} s {size:>7.2} MB", kind.name);
    }
    Ok(())
}

fn source(kind: &Kind, place: &Path) -> PathBuf {
    place.join(kind.name).join("src/main.rs")
}

fn program(kind: &Kind, place: &Path) -> PathBuf {
    place.join("target/release").join(format!("expansion-{}", kind.name))
}

fn write(kind: &Kind, functions: usize, root: &Path, place: &Path) -> Fallible<()> {
    let package = place.join(kind.name);
    fs::create_dir_all(package.join("src"))?;
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"))?;
    let core = root.join("redlock-core");
    let manifest = format!(
        "[workspace]\n\n[package]\nname = \"expansion-{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nredlock-core = {{ path = {core:?} }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\ntracing = \"0.1\"\n\n\
         [profile.release]\nstrip = true\n",
        kind.name,
    );
    fs::write(package.join("Cargo.toml"), manifest)?;
    let mut code = PRELUDE.to_owned();
    let mut calls = String::new();
    for n in 0..functions {
        // Four shapes, so that little is shared between neighbours.
        let (arguments, returned, body, call) = match n % 4 {
            0 => (
                "id: u64, name: String",
                "String",
                "let n = step(id).await?; Ok(format!(\"{name} {n}\"))",
                "1, String::from(\"a\")",
            ),
            1 => (
                "id: u64",
                "u64",
                "let mut n = 0; for _ in 0..3 { n += step(id).await?; } Ok(n)",
                "1",
            ),
            2 => (
                "id: &str, parts: Vec<u64>",
                "Vec<u64>",
                "let mut all = Vec::new(); for n in parts { all.push(step(n + id.len() as u64).await?); } Ok(all)",
                "\"a\", vec![1, 2]",
            ),
            _ => (
                "id: u64, by: Option<u64>",
                "()",
                "if let Some(by) = by { step(id + by).await?; } Ok(())",
                "1, Some(2)",
            ),
        };
        writeln!(
            code,
            "{}\npub async fn f{n}({arguments}) -> Result<{returned}, AppError> {{ {body} }}",
            kind.attribute,
        )?;
        writeln!(calls, "    println!(\"{{:?}}\", f{n}({call}).await);")?;
    }
    writeln!(code, "\n#[tokio::main]\nasync fn main() {{\n    {}\n{calls}}}", kind.setup)?;
    fs::write(source(kind, place), code)?;
    Ok(())
}

fn build(kind: &Kind, place: &Path) -> Fallible<()> {
    let built = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["build", "--release", "--quiet"])
        .current_dir(place.join(kind.name))
        .env("CARGO_TARGET_DIR", place.join("target"))
        .status()?;
    if built.success() { Ok(()) } else { Err(format!("{} does not build", kind.name).into()) }
}

/// What the builds so far took, in seconds: of children that have ended, and of theirs.
fn processor_time() -> Fallible<f64> {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in brackets, may hold spaces.
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(13).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS_A_SECOND)
}
