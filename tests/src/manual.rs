//! The snippets of the manual are doctests of this package. A suite sees that no chapter is missing here.

macro_rules! chapters {
    ($($name:ident: $file:literal;)*) => {
        $(
            #[doc = include_str!(concat!("../../docs/manual/", $file))]
            struct $name;
        )*
    };
}

chapters! {
    Choosing: "choosing.md";
    Guarantee: "guarantee.md";
    Incidents: "incidents.md";
    Jobs: "jobs.md";
    Leading: "leading.md";
    Migration: "migration.md";
    Operations: "operations.md";
    Shutdown: "shutdown.md";
    Testing: "testing.md";
    Waiting: "waiting.md";
}
