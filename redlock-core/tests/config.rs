//! A client's settings, read by serde.

#![allow(clippy::unwrap_used, reason = "these are tests, if not all of them are #[test]")]

use std::time::Duration;

use config::{Environment, File, FileFormat};
use redlock_core::{Builder, Config, Redlock, Restarts};
use serde::Deserialize;

const NODE: &str = "redis://127.0.0.1:1";

/// What a client is built with, as its Debug shows it.
fn built(builder: Builder) -> String {
    format!("{:?}", builder.build().unwrap())
}

fn of_toml(text: &str) -> Result<Config, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

fn of_variables(variables: &[(&str, &str)]) -> Result<Config, String> {
    let variables = variables.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    config::Config::builder()
        .add_source(Environment::with_prefix("REDLOCK").source(Some(variables)))
        .build()
        .and_then(config::Config::try_deserialize)
        .map_err(|error| error.to_string())
}

/// A setting by its name, in a file, in the environment and by its setter.
type Row = (&'static str, &'static str, &'static str, fn(Builder) -> Builder);

fn rows() -> Vec<Row> {
    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }
    vec![
        ("ttl", "\"12s\"", "12s", |it| it.ttl(ms(12_000))),
        ("ttl", "12000", "12000", |it| it.ttl(ms(12_000))),
        ("max_ttl", "\"2m\"", "2m", |it| it.max_ttl(ms(120_000))),
        ("wait", "\"0ms\"", "0", |it| it.wait(ms(0))),
        ("retry_delay", "\"70\"", "70", |it| it.retry_delay(ms(70))),
        ("retry_jitter", "33", "33ms", |it| it.retry_jitter(ms(33))),
        ("retry_count", "7", "7", |it| it.retry_count(7)),
        ("clock_drift_factor", "0.02", "0.02", |it| it.clock_drift_factor(0.02)),
        ("clock_drift_factor", "0", "0", |it| it.clock_drift_factor(0.0)),
        ("node_timeout", "\"80ms\"", "80ms", |it| it.node_timeout(ms(80))),
        ("connect_timeout", "2000", "2s", |it| it.connect_timeout(ms(2000))),
        ("max_waiters", "5", "5", |it| it.max_waiters(5)),
        ("key_prefix", "\"app:\"", "app:", |it| it.key_prefix("app:")),
        ("client_name", "\"seven\"", "seven", |it| it.client_name("seven")),
        ("restarts", "\"strict\"", "STRICT", |it| it.restarts(Restarts::Strict)),
        ("restarts", "\"trusted\"", "Trusted", |it| it.restarts(Restarts::Trusted)),
        ("restarts", "\"observed\"", "observed", |it| it.restarts(Restarts::Observed)),
    ]
}

#[test]
fn every_setting_acts_as_its_setter() {
    let plain = built(Redlock::builder().nodes([NODE]));
    for (name, in_file, in_environment, set) in rows() {
        let expected = built(set(Redlock::builder().nodes([NODE])));
        if name != "restarts" && in_file != "0" {
            assert_ne!(expected, plain, "{name} cannot be told from its default");
        }
        let of = |config| built(Redlock::builder().nodes([NODE]).config(config));
        assert_eq!(of(of_toml(&format!("{name} = {in_file}")).unwrap()), expected, "{name}");
        let json = serde_json::from_str(&format!("{{\"{name}\": {in_file}}}")).unwrap();
        assert_eq!(of(json), expected, "{name} in JSON");
        let variable = format!("REDLOCK_{}", name.to_uppercase());
        let variables = of_variables(&[(&variable, in_environment)]).unwrap();
        assert_eq!(of(variables), expected, "{name} in the environment");
    }
}

#[test]
fn every_setting_has_a_row() {
    let told = of_toml("no_such_setting = 1").unwrap_err();
    let (_, names) = told.split_once("the settings are ").unwrap();
    let names: Vec<_> = names.lines().next().unwrap().split(", ").collect();
    let rows: Vec<_> = ["nodes"].into_iter().chain(rows().iter().map(|row| row.0)).collect();
    assert!(names.len() > 10 && names.contains(&"ttl"), "{names:?}");
    for name in names {
        assert!(rows.contains(&name), "no row for {name}");
    }
}

#[test]
fn the_later_call_wins_and_nodes_add_up() {
    let secs = Duration::from_secs;
    let config = || of_toml("ttl = \"11s\"\nnodes = [\"redis://127.0.0.1:2\"]").unwrap();
    let nodes = [NODE, "redis://127.0.0.1:2"];
    let expected = built(Redlock::builder().nodes(nodes).ttl(secs(11)));
    assert_eq!(built(Redlock::builder().nodes([NODE]).ttl(secs(13)).config(config())), expected);
    let expected = built(Redlock::builder().nodes(nodes).ttl(secs(13)));
    assert_eq!(built(Redlock::builder().nodes([NODE]).config(config()).ttl(secs(13))), expected);
    // A setting that a configuration does not name keeps its earlier value.
    let expected = built(Redlock::builder().nodes(nodes).ttl(secs(11)).wait(secs(1)));
    assert_eq!(built(Redlock::builder().nodes([NODE]).wait(secs(1)).config(config())), expected);
    let twice = Redlock::builder().config(config()).config(config()).build().unwrap_err();
    assert!(twice.to_string().contains("127.0.0.1:2 is given twice"), "{twice}");
}

#[test]
fn nodes_are_a_list_or_one_text_with_commas() {
    let three = ["redis://:a,b@127.0.0.1:1", "redis://127.0.0.1:2", "redis+unix:///run/r.sock"];
    let expected = built(Redlock::builder().nodes(three));
    let of = |config: Result<Config, String>| built(Redlock::builder().config(config.unwrap()));
    assert_eq!(of(of_toml(&format!("nodes = {three:?}"))), expected);
    // The comma in a password begins no URL.
    assert_eq!(of(of_variables(&[("REDLOCK_NODES", &three.join(","))])), expected);
    assert_eq!(of(of_variables(&[("REDLOCK_NODES", &three.join(" , "))])), expected);
    assert_eq!(of(of_toml(&format!("nodes = {:?}", three.join(", ")))), expected);
    let one = built(Redlock::builder().nodes([NODE]));
    assert_eq!(of(of_variables(&[("REDLOCK_NODES", NODE)])), one);
}

#[test]
fn a_file_and_the_environment_together_and_inside_settings_of_an_application() {
    #[derive(Deserialize)]
    struct Application {
        name: String,
        locks: Config,
    }
    let file = "name = \"shop\"\n[locks]\nttl = \"20s\"\nnodes = [\"redis://127.0.0.1:1\"]";
    let variables = [("APP_LOCKS__TTL".to_owned(), "9s".to_owned())].into_iter().collect();
    let environment = Environment::with_prefix("APP")
        .prefix_separator("_")
        .separator("__")
        .source(Some(variables));
    let read: Application = config::Config::builder()
        .add_source(File::from_str(file, FileFormat::Toml))
        .add_source(environment)
        .build()
        .and_then(config::Config::try_deserialize)
        .unwrap();
    assert_eq!(read.name, "shop");
    let expected = built(Redlock::builder().nodes([NODE]).ttl(Duration::from_secs(9)));
    assert_eq!(built(Redlock::builder().config(read.locks)), expected);

    #[derive(Debug, Deserialize)]
    struct Flat {
        name: String,
        #[serde(flatten)]
        locks: Config,
    }
    let flat = r#"{"ttl": 9000, "name": "shop", "nodes": "redis://127.0.0.1:1"}"#;
    let read: Flat = serde_json::from_str(flat).unwrap();
    assert_eq!(read.name, "shop");
    assert_eq!(built(Redlock::builder().config(read.locks)), expected);
    let error = serde_json::from_str::<Flat>(r#"{"name": "shop", "lease": 1}"#).unwrap_err();
    assert!(error.to_string().contains("there is no setting \"lease\""), "{error}");
}

#[test]
fn an_unset_value_keeps_the_default() {
    let config: Config = serde_json::from_str(r#"{"ttl": null, "retry_count": null}"#).unwrap();
    let plain = built(Redlock::builder().nodes([NODE]));
    assert_eq!(built(Redlock::builder().nodes([NODE]).config(config)), plain);
}

#[test]
fn errors_name_the_setting_and_the_fix() {
    for (text, told) in [
        ("ttl = \"soon\"", "ttl: \"soon\" is not a duration: write a whole number and a unit"),
        ("ttl = \"3 weeks\"", "ttl: \"3 weeks\" is not a duration: its unit must be"),
        ("ttl = 1.5", "ttl: 1.5 cannot be used: write a duration in words"),
        ("wait = -1", "wait: -1 is negative: write a duration in words"),
        ("wait = true", "wait: true cannot be used: write a duration"),
        ("retry_count = \"many\"", "retry_count: \"many\" cannot be used: write a whole number"),
        ("retry_count = 4294967296", "retry_count: 4294967296 cannot be used: write a whole"),
        ("clock_drift_factor = \"1%\"", "clock_drift_factor: \"1%\" cannot be used: write a fr"),
        ("restarts = \"always\"", "restarts: \"always\" cannot be used: write \"observed\""),
        ("restarts = [\"strict\"]", "restarts: this list cannot be used: write \"observed\""),
        ("key_prefix = 1.5", "key_prefix: 1.5 cannot be used: write a text"),
        ("nodes = \"\"", "nodes: it is empty: write a list of URLs"),
        ("nodes = \"redis://a,\"", "nodes: it has a comma too many: write a list of URLs"),
        ("nodes = [\"\"]", "nodes: this list cannot be used: write a list of URLs"),
        ("nodes = [1]", "for nodes, texts in quotes"),
        ("nodes = 1", "nodes: 1 cannot be used: write a list of URLs"),
        ("node = [\"redis://a\"]", "there is no setting \"node\": write nodes"),
        ("max-ttl = 1", "there is no setting \"max-ttl\": write max_ttl"),
        ("TTL = 1", "there is no setting \"TTL\": write ttl"),
        ("ttl_ms = 1", "there is no setting \"ttl_ms\": write ttl"),
        (
            "lease = 1",
            "there is no setting \"lease\": the settings are nodes, ttl, wait, retry_count",
        ),
    ] {
        let error = of_toml(text).unwrap_err();
        assert!(error.contains(told), "{text}: {error}");
    }
    let error = of_variables(&[("REDLOCK_LEASE", "1")]).unwrap_err();
    assert!(error.contains("there is no setting \"lease\""), "{error}");
    let error = of_variables(&[("REDLOCK_TTL", "30S")]).unwrap_err();
    assert!(error.contains("ttl: \"30S\" is not a duration"), "{error}");
    let error = serde_json::from_str::<Config>(r#"{"ttl": 1, "ttl": 2}"#).unwrap_err();
    assert!(error.to_string().contains("ttl is given twice"), "{error}");
    // Mistakes that only the whole configuration shows are reported by `build()`.
    let error = Redlock::builder().config(of_toml("ttl = 1").unwrap()).nodes([NODE]).build();
    assert!(error.unwrap_err().to_string().contains("ttl is 1ms, too short"));
    let error = Redlock::builder().config(of_toml("ttl = 1000").unwrap()).build().unwrap_err();
    assert!(error.to_string().contains("no nodes"), "{error}");
}

#[test]
fn no_password_is_shown() {
    let config = of_toml("nodes = [\"redis://:hunter2@127.0.0.1:1\"]\nttl = 1000").unwrap();
    let shown = format!("{config:?} {:?}", Redlock::builder().config(config.clone()));
    assert!(shown.contains("ttl") && !shown.contains("hunter2"), "{shown}");
    // serde_json shows no source, so all of the message comes from the settings.
    for json in [
        r#""redis://:hunter2@127.0.0.1:1""#,
        r#"{"node": "redis://:hunter2@127.0.0.1:1"}"#,
        r#"{"nodes": ["redis://:hunter2@127.0.0.1:1", 1]}"#,
        r#"{"nodes": {"first": "redis://:hunter2@127.0.0.1:1"}}"#,
        r#"{"nodes": [["redis://:hunter2@127.0.0.1:1"]]}"#,
        r#"{"nodes": "redis://:hunter2@127.0.0.1:1,"}"#,
    ] {
        let error = serde_json::from_str::<Config>(json).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{json}: {error}");
    }
}
