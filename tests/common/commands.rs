//! What the commands beside `report` do with a snapshot, with every choice of grouping, picture and format.

use std::io;
use std::sync::LazyLock;

use oomscope::allocator::AllocatorRules;
use oomscope::analysis::categories::{self, Classifier, Rules};
use oomscope::analysis::check::{Growth, Limits, baseline, check, figures, new_figures};
use oomscope::analysis::closeup::close_ups;
use oomscope::analysis::diff::{self, diff};
use oomscope::analysis::fleet::{RankFile, fleet, rank};
use oomscope::analysis::folded::{Folded, Frames, fold};
use oomscope::analysis::info::info;
use oomscope::analysis::layout::{Layout, LayoutOptions, layout_by};
use oomscope::analysis::leaks::{compare, leaks};
use oomscope::analysis::ranking::{
    self, Attribution, Groups, LifeGroups, Measure, Metric, Question, Ranking, annotations, compile_regions, pools,
    streams,
};
use oomscope::analysis::report::{Report, report};
use oomscope::analysis::segments::{Questions, SegmentOrder, segments};
use oomscope::analysis::series::{SeriesOptions, Unit, What, by_size, grouped};
use oomscope::analysis::sites::{By, Sites};
use oomscope::analysis::verdict::Evidence;
use oomscope::analysis::whatif::{self, whatif};
use oomscope::analysis::window::WindowSpec;
use oomscope::export::tables::{Source, TableName};
use oomscope::export::{
    self, Csv, Excerpt, Json, NameOptions, Names, Parquet, Perfetto, Pickle, Pprof, Requests, SeriesFormat,
    SnapshotFormat, TableFormat,
};
use oomscope::history::{At, History};
use oomscope::oom::{Log, Marks, read};
use oomscope::render::flame::{FlameOptions, difference_svg, flame_svg};
use oomscope::render::fleet::{heat_map, timelines};
use oomscope::render::junit::junit;
use oomscope::render::map::{ColourBy, MapOptions, map_svg};
use oomscope::render::terminal::{self, LeakOptions};
use oomscope::render::timeline::{TimelineOptions, timeline_svg, timeline_text};
use oomscope::render::{html, markdown};
use oomscope::snapshot::{LoadOptions, Snapshot, load_bytes};
use serde::Serialize;
use serde::de::IgnoredAny;

/// What a job may have said.
static LOG: LazyLock<Log> = LazyLock::new(|| {
    let text = b"CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which 1.00 MiB is free.";
    read(text, &Marks::built_in())
});

/// Does it all, one after the other; or `only` one part, whatever the number.
pub fn commands(snapshot: &Snapshot, only: Option<usize>) {
    let rules: &AllocatorRules = &snapshot.settings.rules;
    let histories: Vec<History> = snapshot.devices.iter().map(|device| History::new(snapshot, device, rules)).collect();
    let sites = Sites::new(snapshot, By::Line);
    let classifier = Classifier::new(snapshot, Rules::default());
    let parts: [&dyn Fn(); 12] = [
        &|| tops(snapshot, &histories, &classifier),
        &|| leaking(&histories, &sites),
        &|| charts(&histories, &sites, &classifier),
        &|| questions(snapshot, &histories, &sites),
        &|| gate(&histories, &sites),
        &|| replays(&histories),
        &|| flames(snapshot, &histories),
        &|| map(&histories, &classifier),
        &|| exports(snapshot, &histories),
        &|| tables(snapshot, &histories),
        &|| ranks(&histories, &sites),
        &|| moments(snapshot, &histories, &sites),
    ];
    match only {
        Some(number) => parts[number % parts.len()](),
        None => parts.iter().for_each(|part| part()),
    }
}

/// The report as a page and in Markdown.
pub fn pages(histories: &[History], sites: &Sites, report: &Report) {
    let page = html::page(&html::Input {
        name: "file",
        salvaged: None,
        warnings: Vec::new(),
        report,
        close_ups: &close_ups(histories, sites, report, html::DEVICES),
    });
    assert!(page.len() <= html::LIMIT, "a page of {} bytes", page.len());
    markdown::report("file", None, report);
}

/// A picture that any reader of XML reads.
pub fn well_formed(svg: &str) {
    let options = roxmltree::ParsingOptions { nodes_limit: u32::MAX, ..Default::default() };
    roxmltree::Document::parse_with_options(svg, options).unwrap_or_else(|error| panic!("a picture: {error}"));
}

fn as_json(result: &impl Serialize) {
    serde_json::to_writer(io::sink(), result).expect("every result can be written as JSON");
}

fn show(ranking: &Ranking) {
    as_json(ranking);
    terminal::heading(ranking, Some(100));
    terminal::top(ranking, "site", 20, Some(100));
}

fn tops(snapshot: &Snapshot, histories: &[History], classifier: &Classifier) {
    for by in [By::Line, By::Function, By::File, By::Module, By::Stack] {
        let sites = Sites::new(snapshot, by);
        for history in histories {
            for attribution in [Attribution::Own, Attribution::Inclusive] {
                let Ok(moment) = history.moment(At::Default) else { continue };
                let question = Question { attribution, stacks: 3, ..Question::live(moment) };
                if by != By::Stack || attribution == Attribution::Own {
                    show(&ranking::rank(history, &Groups::Sites(&sites), &question));
                }
                if by == By::Line {
                    as_json(&ranking::tree(history, &sites, &question));
                }
            }
        }
    }
    for history in histories {
        let Ok(moment) = history.moment(At::Default) else { continue };
        let live = Question::live(moment);
        for groups in [streams(history), pools(history), annotations(history), compile_regions(history)] {
            show(&ranking::rank(history, &Groups::Lives(groups), &live));
        }
        show(&categories::ranking(history, &classifier.classify(history), &live, true));
        let Ok(window) = WindowSpec::default().resolve(history) else { continue };
        for metric in
            [Metric::Allocated, Metric::Freed, Metric::Churn, Metric::Count, Metric::Lifetime, Metric::BytesTime]
        {
            let question = Question { measure: Measure::Over(metric, window), ..Question::live(moment) };
            show(&ranking::rank(history, &Groups::Lives(streams(history)), &question));
        }
    }
}

fn leaking(histories: &[History], sites: &Sites) {
    for history in histories {
        let found = leaks(history, sites, Some(80 << 30));
        as_json(&found);
        terminal::leaks("file", &found, LeakOptions { whole_stacks: true, limit: 5 }, Some(100));
        let compared = compare(history.device.ordinal, &[(history, sites), (history, sites)]);
        as_json(&compared);
        terminal::compared(&["file", "file"], &compared, Some(100));
    }
}

fn charts(histories: &[History], sites: &Sites, classifier: &Classifier) {
    let draw = |history: &History, groups: Option<&LifeGroups>, what: What, unit: Unit| {
        let bands = if what == What::Live { 12 } else { 400 };
        let options = SeriesOptions { bands, what, unit, ..SeriesOptions::default() };
        let Some(series) = grouped(history, sites, groups, &options) else { return };
        as_json(&series);
        timeline_text(&series, "file", 100, 20);
        well_formed(&timeline_svg(&[series], &TimelineOptions::default()));
    };
    for history in histories {
        for (what, unit) in [
            (What::Live, Unit::Microseconds),
            (What::Blocks, Unit::Event),
            (What::Blocks, Unit::Microseconds),
            (What::Segments, Unit::Event),
        ] {
            draw(history, None, what, unit);
        }
        for groups in [by_size(history), annotations(history), classifier.classify(history).groups()] {
            draw(history, Some(&groups), What::Live, Unit::Event);
        }
    }
}

/// `info`, `segments` and `diff`.
fn questions(snapshot: &Snapshot, histories: &[History], sites: &Sites) {
    let found = info(snapshot, histories);
    as_json(&found);
    terminal::info("file", &found, Some(100));
    for history in histories {
        if let Ok(moment) = history.moment(At::Default) {
            let some = history.snapshot.segments.iter().take(2).map(|segment| segment.address);
            let asked = Questions {
                requests: vec![1, 1 << 20, u64::MAX],
                free: Some(1 << 30),
                segments: some.collect(),
                capacity: Some(80 << 30),
            };
            for questions in [Questions::default(), asked] {
                let found = segments(history, moment, sites, &questions);
                as_json(&found);
                for order in [SegmentOrder::Stranded, SegmentOrder::Fragmentation] {
                    terminal::segments(&found, order, 20, Some(100));
                }
            }
        }
        let last = histories.last().unwrap_or(history);
        if let Ok(found) = diff(&[(history, sites), (last, sites)], &diff::Options::default()) {
            as_json(&found);
            let file = |history| terminal::DiffFile { name: "file", history };
            terminal::diff(&[file(history), file(last)], &found, 20, Some(100));
        }
    }
}

/// `check`: what it writes can be compared with later.
fn gate(histories: &[History], sites: &Sites) {
    let of_devices: Vec<_> =
        histories.iter().map(|history| (figures(history), new_figures(history, sites, true))).collect();
    let base: Vec<_> = histories.iter().map(figures).collect();
    let limits = Limits {
        peak_growth: Some(Growth::Share(0.05)),
        reserved_growth: Some(Growth::Bytes(1 << 20)),
        peak: Some(1 << 30),
        reserved: Some(1 << 30),
        leak_per_step: Some(1 << 20),
        fragmentation: Some(0.1),
        ..Limits::default()
    };
    for base in [None, Some(&base[..])] {
        let judged = check(&of_devices, base, &limits);
        terminal::check("file", base.map(|_| "file"), &judged, Some(100));
        well_formed(&junit("file", &judged));
        let mut document = serde_json::to_value(&judged).expect("every result can be written as JSON");
        document["oomscope"] = "0".into();
        document["command"] = "check".into();
        let found = baseline(document.to_string().as_bytes()).unwrap_or_else(|error| panic!("{document}: {error}"));
        assert_eq!(found.len(), histories.len());
    }
}

/// `whatif`.
fn replays(histories: &[History]) {
    for history in histories {
        for options in [
            whatif::Options { min_capacity: true, ..whatif::Options::default() },
            whatif::Options {
                settings: vec!["expandable_segments:True,garbage_collection_threshold:0.5".to_owned()],
                capacity: Some(1 << 30),
                ..whatif::Options::default()
            },
        ] {
            if let Ok(found) = whatif(history, &options) {
                as_json(&found);
                terminal::whatif("file", "2.6", &found, Some(100));
            }
        }
    }
}

fn flames(snapshot: &Snapshot, histories: &[History]) {
    let sites = Sites::new(snapshot, By::Stack);
    let all = |measure: &dyn Fn(&History) -> Option<Measure>, frames| {
        Folded::below(histories.iter().filter_map(|history| {
            Some((history.device.ordinal.to_string(), fold(history, &sites, measure(history)?, frames)))
        }))
    };
    let live = all(&|history| Some(Measure::Live(history.moment(At::Default).ok()?)), Frames::All);
    let window = |history: &History| WindowSpec::default().resolve(history).ok();
    let held = all(&|history| Some(Measure::Over(Metric::BytesTime, window(history)?)), Frames::Python);
    let options = FlameOptions { title: "file".to_owned(), subtitle: String::new(), width: 1200 };
    for folded in [&live, &held].into_iter().flatten() {
        as_json(folded);
        flame_svg(folded, &options).as_deref().map(well_formed);
    }
    if let (Some(live), Some(held)) = (&live, &held) {
        difference_svg(live, held, ("file", "file"), &options).as_deref().map(well_formed);
    }
}

fn map(histories: &[History], classifier: &Classifier) {
    let layouts: Vec<Layout> = histories
        .iter()
        .filter_map(|history| {
            let moment = history.moment(At::Default).ok()?;
            Some(layout_by(history, moment, &classifier.classify(history).groups(), &LayoutOptions::default()))
        })
        .collect();
    well_formed(&map_svg(&layouts, &MapOptions { colour: ColourBy::Category, ..MapOptions::default() }));
}

/// Every format but tables. A snapshot that was read is written so that it can be read again.
fn exports(snapshot: &Snapshot, histories: &[History]) {
    let out = &mut io::sink();
    let plain = || Names::new(snapshot, &NameOptions::default());
    let whole = Excerpt::new(snapshot, histories, plain());
    let mut pickle = Vec::new();
    Pickle.write(&whole, &mut pickle).unwrap();
    load_bytes(&pickle, &LoadOptions::default()).unwrap_or_else(|error| panic!("an exported pickle: {error}"));
    drop(pickle);
    is_json(|out| Json.write(&whole, out)).unwrap();
    drop(whole);
    let redact = NameOptions { redact: true, redact_functions: true, ..NameOptions::default() };
    Json.write(&Excerpt::new(snapshot, histories, Names::new(snapshot, &redact)), out).unwrap();
    if let Ok(excerpt) = Excerpt::windowed(snapshot, histories, WindowSpec::default(), plain()) {
        Pickle.write(&excerpt, out).unwrap();
    }
    // These say what the file lacks for them.
    let _ = Requests.write(histories, out);
    let _ = export::Folded::default().write(histories, out);
    let _ = Pprof::default().write(histories, out);
    let _ = is_json(|out| Perfetto::default().write(histories, out));
}

/// Whether it can be written; then it is JSON to the end.
fn is_json<E>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let mut text = Vec::new();
    write(&mut text)?;
    serde_json::from_slice::<IgnoredAny>(&text).unwrap_or_else(|error| panic!("exported JSON: {error}"));
    Ok(())
}

fn tables(snapshot: &Snapshot, histories: &[History]) {
    let out = &mut io::sink();
    let source = Source::new(snapshot, histories);
    for name in TableName::ALL {
        let table = source.table(name);
        Csv.write(&*table, out).unwrap();
        Parquet.write(&*table, out).unwrap();
    }
}

/// Moments and windows that a user may name, and a log beside the snapshot.
fn moments(snapshot: &Snapshot, histories: &[History], sites: &Sites) {
    for at in
        ["end", "peak:requested", "peak:reserved", "oom:1", "oom:2", "0", "3", "@0", "@1700000000000000", "step:1"]
    {
        let at: At = at.parse().unwrap();
        for history in histories {
            let Ok(moment) = history.moment(at) else { continue };
            show(&ranking::rank(history, &Groups::Sites(sites), &Question::live(moment)));
            as_json(&segments(history, moment, sites, &Questions::default()));
        }
    }
    let evidence = Evidence { log: Some(&LOG), account: None };
    if let Ok(found) = report(snapshot, histories, sites, At::Oom(Some(1)), Some(80 << 30), &evidence) {
        terminal::report("file", &found, Some(100));
    }
    for window in ["..", "1..3", "..oom", "peak..", "@0..@9", "step:1..step:2", "2", "3..1"] {
        let spec: WindowSpec = window.parse().unwrap();
        for history in histories {
            let (Ok(window), Ok(end)) = (spec.resolve(history), history.moment(At::End)) else {
                continue;
            };
            for metric in [Metric::Allocated, Metric::BytesTime] {
                let question = Question { measure: Measure::Over(metric, window), ..Question::live(end) };
                show(&ranking::rank(history, &Groups::Sites(sites), &question));
            }
        }
        let names = Names::new(snapshot, &NameOptions::default());
        if let Ok(excerpt) = Excerpt::windowed(snapshot, histories, spec, names) {
            let mut pickle = Vec::new();
            Pickle.write(&excerpt, &mut pickle).unwrap();
            load_bytes(&pickle, &LoadOptions::default()).unwrap_or_else(|error| panic!("a window: {error}"));
        }
    }
}

fn ranks(histories: &[History], sites: &Sites) {
    let of = |number: u32| RankFile { rank: number, node: None, file: format!("rank{number}") };
    let ranks = histories.iter().zip(0..).map(|(history, number)| rank(&of(number), history, sites, Some(80 << 30)));
    let ranks: Vec<_> = ranks.collect();
    if ranks.is_empty() {
        return;
    }
    let fleet = fleet(ranks);
    as_json(&fleet);
    terminal::fleet(&fleet, &[], 0, 32, Some(100));
    well_formed(&heat_map(&fleet));
    well_formed(&timelines(&fleet));
}
