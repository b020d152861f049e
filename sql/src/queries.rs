//! Questions that people ask of many ranks, as SQL.

/// A query with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its name.
    pub name: &'static str,
    /// What it answers, and the text.
    pub sql: &'static str,
}

impl Query {
    /// What it answers: its first line.
    pub fn about(&self) -> &'static str {
        self.sql.lines().next().unwrap_or_default().trim_start_matches("-- ")
    }

    /// The query of that name.
    pub fn named(name: &str) -> Option<Self> {
        QUERIES.into_iter().find(|query| query.name == name)
    }
}

macro_rules! queries {
    ($($name:literal),* $(,)?) => {
        /// All queries, the most asked for first.
        pub const QUERIES: [Query; [$($name),*].len()] =
            [$(Query { name: $name, sql: include_str!(concat!("../queries/", $name, ".sql")) }),*];
    };
}

queries![
    "peak-by-rank",
    "first-oom",
    "imbalance",
    "sites-by-rank",
    "odd-sites",
    "leaks",
    "stranded",
    "holes",
    "steps",
    "churn"
];
