//! Which part of a crate may import which.

/// The layers of a crate, the lowest first: a layer imports only layers before it, and its own files.
/// A layer is a list of files and folders in `src`.
pub(super) struct Layers {
    pub(super) below: &'static [(&'static str, &'static [&'static str])],
    /// Files that may import each other: they are two sides of one thing.
    pub(super) natural: &'static [&'static [&'static str]],
}

impl Layers {
    /// The layer of a file, and how high it is. The longest name counts.
    pub(super) fn of(&self, file: &str) -> Option<(&'static str, usize)> {
        let is_in = |part: &str| {
            file == part || file.strip_prefix(part).is_some_and(|rest| rest.starts_with('/'))
        };
        let layers = self.below.iter().enumerate();
        let parts =
            layers.flat_map(|(at, (name, parts))| parts.iter().map(move |it| (at, name, *it)));
        let best = parts.filter(|(_, _, part)| is_in(part)).max_by_key(|(_, _, part)| part.len());
        best.map(|(at, name, _)| (*name, at))
    }
}

/// The crates, and their layers.
pub(super) const CRATES: &[(&str, &Layers)] =
    &[("redlock-core", &CORE), ("redlock-macros", &MACROS), ("redlock-tower", &TOWER)];

const CORE: Layers = Layers {
    below: &[
        (
            "base",
            &[
                "sync",
                "sync.rs",
                "seam",
                "background.rs",
                "runtime.rs",
                "clock.rs",
                "clock",
                "error.rs",
                "metrics",
                "fence",
                "telemetry.rs",
                "timer.rs",
                "token.rs",
                "drift.rs",
                "durations.rs",
            ],
        ),
        ("node", &["node"]),
        ("options", &["options.rs", "resources.rs", "settings.rs"]),
        ("quorum", &["quorum"]),
        ("status", &["status.rs", "waiting.rs"]),
        ("lease", &["lease"]),
        ("wait", &["wait"]),
        ("client", &["gate.rs", "client.rs"]),
        ("op", &["op"]),
        ("guard", &["guard.rs", "lock_future.rs"]),
        ("body", &["body"]),
        ("request", &["request.rs"]),
        ("election", &["lead.rs", "lead"]),
        ("client of a user", &["redlock.rs", "builder.rs", "shutdown.rs", "config"]),
        (
            "around it",
            &["pools.rs", "annotation.rs", "extension.rs", "axum.rs", "fuzz.rs", "seam/simulation"],
        ),
    ],
    natural: &[
        // A turn that is dropped passes itself on.
        &["wait/queues.rs", "wait/turn.rs"],
        &["builder.rs", "redlock.rs"],
    ],
};

const MACROS: Layers = Layers {
    below: &[
        (
            "words",
            &[
                "braces.rs",
                "duration.rs",
                "errors.rs",
                "exit.rs",
                "function.rs",
                "hole.rs",
                "paths.rs",
                "template.rs",
            ],
        ),
        ("values", &["debug_handler.rs", "nodes.rs", "resource.rs", "setting.rs", "value.rs"]),
        ("keys", &["keys.rs", "suggest.rs"]),
        ("arguments", &["args.rs"]),
        ("function", &["output.rs", "returned_future.rs", "validate.rs"]),
        ("expansion", &["expand.rs", "fallback.rs", "request.rs"]),
    ],
    natural: &[],
};

const TOWER: Layers = Layers {
    below: &[
        ("protocol", &["problem.rs", "protocol.rs", "report.rs", "settings.rs"]),
        ("extract", &["extract"]),
        ("request", &["body.rs", "future.rs", "plain.rs"]),
        ("service", &["service.rs"]),
        ("layer", &["layer.rs"]),
        ("protocols", &["grpc.rs", "http.rs"]),
        ("console", &["console"]),
    ],
    natural: &[],
};
