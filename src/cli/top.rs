//! `oomscope top`

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use rayon::prelude::*;
use regex::Regex;

use super::args::{InputArgs, MomentArgs};
use super::input::Loaded;
use super::{Status, input, output};
use crate::analysis::categories::{self, Classifier, Rules};
use crate::analysis::ranking::{
    self, Attribution, Document, Groups, LifeGroups, Measure, Metric, Question, Ranking, TreeDocument, rank,
};
use crate::analysis::sites::{By, FrameRules, Sites, stacks_under};
use crate::analysis::steps::Steps;
use crate::analysis::window::WindowSpec;
use crate::history::History;
use crate::render::terminal;

/// Who holds the memory, or moves it: blocks by line, function, file, module, stack, category, stream, pool or region.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope top oom.pickle                             lines, at the OOM
  oomscope top oom.pickle --at peak --by file
  oomscope top oom.pickle --by category --why         parameters, gradients …, and why
  oomscope top oom.pickle --inclusive                 count a block for all its callers
  oomscope top oom.pickle --tree                      who calls whom, with shares
  oomscope top oom.pickle --stack --limit 3           the stacks behind the first three lines
  oomscope top oom.pickle --under 'attention\\.py'     only stacks with such a frame
  oomscope top oom.pickle --metric churn --window step:3..step:7
  oomscope top oom.pickle --metric bytes-time         bytes times how long they were held")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: MomentArgs,
    /// What a row stands for
    #[arg(long, value_enum, default_value_t = Group::Line)]
    by: Group,
    /// What is counted
    #[arg(long, value_enum, default_value_t = Counted::Live)]
    metric: Counted,
    /// Part of the trace that counts, for metrics other than live: A..B, both included, each an event number,
    /// @MICROSECONDS or step:N [default: the whole trace]
    #[arg(long, value_name = "A..B")]
    window: Option<WindowSpec>,
    /// Count a block for every user frame on its stack, not only for the innermost
    #[arg(long)]
    inclusive: bool,
    /// Count only stacks with a frame that matches (a regular expression on `file:line function`)
    #[arg(long, value_name = "PATTERN")]
    under: Option<Regex>,
    /// Pass over frames that match when the line of a block is chosen
    #[arg(long, value_name = "PATTERN")]
    hide: Option<Regex>,
    /// Frames that match are the program's own, and no others
    #[arg(long, value_name = "PATTERN")]
    user: Option<Regex>,
    /// Take the innermost frame, whoever's it is
    #[arg(long, conflicts_with = "user")]
    innermost: bool,
    /// Print the whole stacks behind each row that is printed, innermost frame last
    #[arg(long, conflicts_with = "tree")]
    stack: bool,
    /// Print who calls whom, callers first, with what each holds
    #[arg(long)]
    tree: bool,
    /// Say why blocks are in their category
    #[arg(long)]
    why: bool,
    /// Categories of your own: a TOML file with [[rule]] match = 'PATTERN', label = "NAME"; the first match wins
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Rows to print; JSON has all
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Group {
    /// The innermost line that is neither torch's nor an installed package's
    Line,
    /// Its function
    Function,
    /// Its file
    File,
    /// Its Python module
    Module,
    /// The whole stack
    Stack,
    /// What it is for: parameters, gradients, activations …
    Category,
    /// The stream of the allocation
    Stream,
    /// The default pool, or that of a CUDA graph or MemPool
    Pool,
    /// The innermost record_function region, or the user's metadata
    Annotation,
    /// The torch.compile region
    CompileRegion,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Counted {
    /// Bytes live or pending at the moment
    Live,
    /// Bytes handed out in the window
    Allocated,
    /// Bytes freed in the window, by the code that had allocated them
    Freed,
    /// Bytes both handed out and freed in the window
    Churn,
    /// Number of allocations in the window
    Count,
    /// Time for which blocks were held in the window, summed
    Lifetime,
    /// Bytes times the time for which they were held in the window
    BytesTime,
}

impl Counted {
    fn over_window(self) -> Option<Metric> {
        match self {
            Self::Live => None,
            Self::Allocated => Some(Metric::Allocated),
            Self::Freed => Some(Metric::Freed),
            Self::Churn => Some(Metric::Churn),
            Self::Count => Some(Metric::Count),
            Self::Lifetime => Some(Metric::Lifetime),
            Self::BytesTime => Some(Metric::BytesTime),
        }
    }
}

impl Group {
    /// How frames are grouped, where rows stand for frames.
    fn frames(self) -> Option<By> {
        match self {
            Self::Line => Some(By::Line),
            Self::Function => Some(By::Function),
            Self::File => Some(By::File),
            Self::Module => Some(By::Module),
            Self::Stack => Some(By::Stack),
            Self::Category | Self::Stream | Self::Pool | Self::Annotation | Self::CompileRegion => None,
        }
    }
}

pub fn run(args: &Args) -> Result<Status> {
    check(args)?;
    let rules = args.rules.as_deref().map_or_else(|| Ok(Rules::default()), input::rules)?;
    let loaded = input::open(&args.input)?;
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let view = View::new(args, &loaded, rules);
    let text = if args.tree {
        let trees = histories
            .par_iter()
            .map(|history| Ok(ranking::tree(history, &view.sites, &view.question(history)?)))
            .collect::<Result<Vec<_>>>()?;
        match args.input.json {
            true => output::json("top", &loaded, &TreeDocument::new(&trees))?,
            false => {
                let trees = trees.iter().map(|tree| terminal::tree(tree, args.limit, output::width()));
                loaded.preface() + &trees.collect::<Vec<_>>().join("\n")
            }
        }
    } else {
        let rankings = histories.par_iter().map(|history| view.ranking(history)).collect::<Result<Vec<Ranking>>>()?;
        match args.input.json {
            true => output::json("top", &loaded, &Document::new(&rankings))?,
            false => {
                let tables = rankings.iter().map(|ranking| {
                    let width = output::width();
                    terminal::heading(ranking, width) + &terminal::top(ranking, "site", args.limit, width)
                });
                loaded.preface() + &tables.collect::<Vec<_>>().join("\n")
            }
        }
    };
    output::print(&text)?;
    Ok(loaded.status())
}

/// Refuses flags that mean nothing together.
fn check(args: &Args) -> Result<()> {
    let is_frame = args.by.frames().is_some_and(|by| by != By::Stack);
    ensure!(
        is_frame || !args.inclusive,
        "--inclusive counts a block for every frame on its stack, so it goes with --by line, function, file or module"
    );
    ensure!(
        args.metric != Counted::Live || args.window.is_none(),
        "--metric live is of one moment: choose it with --at, or another metric for the window"
    );
    ensure!(
        args.metric == Counted::Live || args.at.at.is_none(),
        "--at chooses the moment for --metric live; other metrics are counted over --window A..B"
    );
    ensure!(args.by == Group::Category || !args.why, "--why tells the reasons for categories: add --by category");
    ensure!(args.by == Group::Category || args.rules.is_none(), "--rules defines categories: add --by category");
    ensure!(!args.tree || args.by == Group::Line, "--tree is of lines: leave out --by");
    ensure!(!args.tree || !args.inclusive, "--tree counts inclusively anyway: leave out --inclusive");
    ensure!(
        args.by.frames().is_some() || !args.stack,
        "--stack shows the stacks of lines, functions, files or modules: with other rows, narrow them with --under"
    );
    Ok(())
}

/// What is asked of every device.
struct View<'a> {
    args: &'a Args,
    sites: Sites<'a>,
    classifier: Option<Classifier>,
    under: Option<Vec<bool>>,
}

impl<'a> View<'a> {
    fn new(args: &'a Args, loaded: &'a Loaded, rules: Rules) -> Self {
        let snapshot = &loaded.snapshot;
        let frames = FrameRules { user: args.user.clone(), hide: args.hide.clone(), innermost: args.innermost };
        Self {
            args,
            sites: Sites::with(snapshot, args.by.frames().unwrap_or_default(), &frames),
            classifier: (args.by == Group::Category).then(|| Classifier::new(snapshot, rules)),
            under: args.under.as_ref().map(|pattern| stacks_under(snapshot, pattern)),
        }
    }

    fn question(&self, history: &History) -> Result<Question<'_>> {
        let args = self.args;
        let measure = match args.metric.over_window() {
            None => Measure::Live(history.moment(args.at.moment())?),
            Some(metric) => Measure::Over(metric, args.window.unwrap_or_default().resolve(history)?),
        };
        Ok(Question {
            measure,
            attribution: if args.inclusive { Attribution::Inclusive } else { Attribution::Own },
            under: self.under.as_deref(),
            stacks: if args.stack { args.limit } else { 0 },
        })
    }

    /// The steps of `history`, when the window names some.
    fn steps(&self, history: &History) -> Option<Steps> {
        self.args.window?.steps(history)
    }

    fn ranking(&self, history: &History) -> Result<Ranking> {
        let mut ranking = self.groups(history)?;
        if let Some(steps) = self.steps(history) {
            let said = format!("{} steps, {}", steps.count(), steps.source);
            ranking.note = Some(ranking.note.map_or(said.clone(), |note| format!("{note}; {said}")));
        }
        Ok(ranking)
    }

    fn groups(&self, history: &History) -> Result<Ranking> {
        let question = self.question(history)?;
        if let Some(classifier) = &self.classifier {
            return Ok(categories::ranking(history, &classifier.classify(history), &question, self.args.why));
        }
        let lives = |groups: LifeGroups| rank(history, &Groups::Lives(groups), &question);
        Ok(match self.args.by {
            Group::Stream => lives(ranking::streams(history)),
            Group::Pool => lives(ranking::pools(history)),
            Group::Annotation => lives(ranking::annotations(history)),
            Group::CompileRegion => lives(ranking::compile_regions(history)),
            _ => rank(history, &Groups::Sites(&self.sites), &question),
        })
    }
}
