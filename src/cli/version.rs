//! What `oomscope --version` prints: what a report of a fault needs to name.

use std::env::consts;
use std::sync::LazyLock;

/// Version, commit (when `OOMSCOPE_COMMIT` was set during the build), target and profile.
pub fn long() -> &'static str {
    &LONG
}

static LONG: LazyLock<String> = LazyLock::new(|| {
    let profile = if cfg!(debug_assertions) { "debug" } else { "optimised" };
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    format!(
        "{}\ncommit   {}\ntarget   {}-{}, {linked}\nprofile  {profile}",
        env!("CARGO_PKG_VERSION"),
        option_env!("OOMSCOPE_COMMIT").filter(|commit| !commit.is_empty()).unwrap_or("not known"),
        consts::ARCH,
        consts::OS,
    )
});
