//! Progress on standard error, only on a terminal and only when the work lasts.

use std::cell::RefCell;
use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use indicatif::{
    BinaryBytes, HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

/// Work shorter than this shows nothing.
const DELAY: Duration = Duration::from_millis(200);

/// Characters of a file's name that are shown, so that the figures fit on a line.
const NAME: usize = 30;

/// All bars that are shown, one below the other: several files may be read at once.
static SHOWN: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// A bar for reading one file.
pub struct Reading {
    started: Instant,
    name: String,
    bar: RefCell<Option<ProgressBar>>,
}

impl Reading {
    /// A bar that appears when reading `name` takes longer than a moment.
    pub fn new(name: &str) -> Self {
        let name = Path::new(name).file_name().map_or(name.into(), |last| last.to_string_lossy());
        let mut name = crate::text::printable(&name).into_owned();
        if let Some((end, _)) = name.char_indices().nth(NAME) {
            name.truncate(end);
            name.push('…');
        }
        Self { started: Instant::now(), name, bar: RefCell::new(None) }
    }

    /// Bytes read so far, and how many there are when that is known.
    pub fn report(&self, done: u64, total: Option<u64>) {
        if self.started.elapsed() < DELAY || !stderr().is_terminal() {
            return;
        }
        let mut bar = self.bar.borrow_mut();
        let bar = bar.get_or_insert_with(|| {
            let template = match total {
                Some(_) => "{msg} {bar:30} {binary_bytes}/{binary_total_bytes} {rate}, {left} left",
                None => "{msg} {spinner} {binary_bytes} {rate}",
            };
            // Nothing is drawn before it is known how far the file is read.
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style.with_key("rate", write_rate).with_key("left", write_left));
            bar.set_message(format!("reading {}", self.name));
            let bar = bar.with_elapsed(self.started.elapsed()).with_position(done);
            SHOWN.add(bar)
        });
        bar.set_position(done);
    }
}

/// Bytes a second since the start. The estimate that the bar makes itself starts when it appears.
fn rate(state: &ProgressState) -> f64 {
    state.pos() as f64 / state.elapsed().as_secs_f64().max(1e-3)
}

fn write_rate(state: &ProgressState, out: &mut dyn Write) {
    // The bar has no way to tell of an error.
    let _ = write!(out, "{}/s", BinaryBytes(rate(state) as u64));
}

fn write_left(state: &ProgressState, out: &mut dyn Write) {
    let left = state.len().unwrap_or(0).saturating_sub(state.pos()) as f64 / rate(state).max(1.0);
    let _ = write!(out, "{}", HumanDuration(Duration::from_secs_f64(left.min(1e6).ceil())));
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get_mut() {
            bar.finish_and_clear();
        }
    }
}

/// A line that says which long step is being done, until it is dropped.
pub struct Step(Option<ProgressBar>);

impl Step {
    /// Announces `what`.
    pub fn new(what: &'static str) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let bar = SHOWN.add(ProgressBar::new_spinner());
        bar.set_message(what);
        bar.enable_steady_tick(DELAY);
        Self(Some(bar))
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A bar that counts files.
pub struct Files(Option<ProgressBar>);

impl Files {
    /// A bar for `total` files.
    pub fn new(total: usize) -> Self {
        if total < 2 || !stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new(total as u64).with_style(
            ProgressStyle::with_template("reading {bar:30} {pos}/{len} files, {eta} left")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        let bar = SHOWN.add(bar);
        bar.enable_steady_tick(DELAY);
        Self(Some(bar))
    }

    /// One more file is done.
    pub fn done(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
