//! What is found out about leaks.

use serde::Serialize;

use super::kind::Kind;
use crate::analysis::steps::StepSource;
use crate::history::Moment;

/// What grows on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leaks {
    /// Device ordinal.
    pub device: i64,
    /// The steps that the memory was looked at between; `None` where growth cannot be seen.
    pub steps: Option<LeakSteps>,
    /// Why growth cannot be seen.
    pub unknown: Option<String>,
    /// Bytes that all leaks add in a step.
    pub bytes_per_step: u64,
    /// In how many further steps the device is full at that rate; 0 where it was, `None` where nothing leaks or its
    /// size is not known.
    pub full_in_steps: Option<u64>,
    /// The leaks by cause, the fastest first: lines below one call of the program are one.
    pub causes: Vec<Cause>,
    /// Lines that leak, the fastest first.
    pub leaks: Vec<Leak>,
    /// Lines that have risen all the time, but in too few steps for a proof.
    pub suspects: Vec<Leak>,
    /// Lines that look like a leak, and why they are none, the biggest first.
    pub not_leaks: Vec<NotLeak>,
    /// Where growth cannot be seen: sites that hold many blocks of one size.
    pub many_alike: Vec<Stock>,
}

/// The JSON of several devices: the first one's at the top level, and all of them in `devices`.
#[derive(Serialize)]
pub struct Document<'a> {
    /// The first device.
    #[serde(flatten)]
    pub first: Option<&'a Leaks>,
    /// One entry a device.
    pub devices: Vec<&'a Leaks>,
}

impl<'a> Document<'a> {
    /// `results` as one document.
    pub fn new(results: impl IntoIterator<Item = &'a Leaks>) -> Self {
        let devices: Vec<&Leaks> = results.into_iter().collect();
        Self { first: devices.first().copied(), devices }
    }
}

/// The steps that were looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeakSteps {
    /// What marks them.
    #[serde(flatten)]
    pub source: StepSource,
    /// How many there are.
    pub count: usize,
    /// Number of the first.
    pub first: u64,
    /// Number of the last.
    pub last: u64,
    /// Samples taken between them.
    pub samples: usize,
    /// The moment of what is called live: the failure that the job died of, else the end.
    pub at: Moment,
}

/// A line that grows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leak {
    /// Name of the site.
    pub site: String,
    /// Function of the line.
    pub function: Option<String>,
    /// Bytes that it adds in a step: the slope over the later half of the samples.
    pub bytes_per_step: u64,
    /// Blocks that it adds in a step.
    pub blocks_per_step: f64,
    /// Bytes live now: at the failure, or at the end of the trace.
    pub live_bytes: u64,
    /// Of those what was asked for, rounded.
    pub requested: u64,
    /// Blocks live now.
    pub live_blocks: u64,
    /// The step in which it began to grow.
    pub since_step: u64,
    /// How likely so steady a rise is, if it were none.
    pub p_value: f64,
    /// In how many further steps this line alone fills the device.
    pub full_in_steps: Option<u64>,
    /// Number of samples.
    pub samples: usize,
    /// What it probably is.
    pub kind: Kind,
    /// The program's own call below which the line allocates, where that is another line.
    pub called_from: Option<String>,
    /// Frames of the stack that has kept most, innermost first.
    pub stack: Vec<String>,
    /// Those of them that are not torch's.
    #[serde(skip)]
    pub own_stack: Vec<String>,
    /// Number of different stacks that lead to kept blocks.
    pub stacks: usize,
    /// Where blocks of this line are freed, when they are.
    pub freed: Option<Freed>,
    /// Live bytes in each sample.
    pub levels: Vec<u64>,
}

/// One or more leaking lines that belong together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// The program's own line: the call below which all of them allocate, or the line itself.
    pub line: String,
    /// Its function, where it is the line itself.
    pub function: Option<String>,
    /// What it probably is.
    pub kind: Kind,
    /// Bytes that they add in a step.
    pub bytes_per_step: u64,
    /// Blocks that they add in a step.
    pub blocks_per_step: f64,
    /// Bytes live now.
    pub live_bytes: u64,
    /// Of those what was asked for, rounded.
    pub requested: u64,
    /// The step in which the first began to grow.
    pub since_step: u64,
    /// In how many further steps they alone fill the device.
    pub full_in_steps: Option<u64>,
    /// The leaking lines, the fastest first.
    pub sites: Vec<String>,
}

/// Where memory is given back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Freed {
    /// Blocks of the line that were freed in the trace.
    pub blocks: u64,
    /// The site that has freed most of them; `None` where frees were recorded without stacks.
    pub site: Option<String>,
    /// The frames of that, innermost first.
    pub stack: Vec<String>,
}

/// A line that looks like a leak and is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotLeak {
    /// Name of the site.
    pub site: String,
    /// Bytes live now.
    pub bytes: u64,
    /// Why it is none.
    pub why: String,
}

/// Many blocks of one size from one site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stock {
    /// Name of the site.
    pub site: String,
    /// Bytes of each block.
    pub block_bytes: u64,
    /// How many there are.
    pub blocks: u64,
    /// Bytes of all.
    pub bytes: u64,
}
