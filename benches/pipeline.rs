//! The stages of a report one by one: decode, rebuild the past, rank, reduce to a picture.
//!
//! `cargo bench --bench pipeline` measures a small file of `testdata/`; `OOMSCOPE_BENCH_FILE=big.pickle` another one.

use std::path::PathBuf;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use oomscope::analysis::ranking::{Attribution, live};
use oomscope::analysis::series::{SeriesOptions, series};
use oomscope::analysis::sites::{By, Sites};
use oomscope::history::{At, History};
use oomscope::snapshot::{LoadOptions, Source, load};

fn file() -> PathBuf {
    let own = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/rig/2.6.0/decode.pickle");
    std::env::var_os("OOMSCOPE_BENCH_FILE").map_or_else(own, PathBuf::from)
}

fn stages(criterion: &mut Criterion) {
    let path = file();
    let source = Source::Path(path.clone());
    let read = || load(&source, &LoadOptions::default()).expect("the bench file is a snapshot");
    let snapshot = read();
    let bytes = std::fs::metadata(&path).expect("the bench file exists").len();
    let events = snapshot.events.len() as u64;
    let device = &snapshot.devices[0];
    let rules = &snapshot.settings.rules;
    let history = History::new(&snapshot, device, rules);
    let sites = Sites::new(&snapshot, By::Line);
    let moment = history.moment(At::Default).expect("every file has a default moment");

    let mut group = criterion.benchmark_group("report");
    group.sample_size(20);
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("decode", |bench| bench.iter(read));
    group.throughput(Throughput::Elements(events));
    group.bench_function("history", |bench| bench.iter(|| History::new(&snapshot, device, rules)));
    group.bench_function("state", |bench| bench.iter(|| history.state(moment.state)));
    group.bench_function("ranking", |bench| bench.iter(|| live(&history, moment, &sites, Attribution::Own)));
    group.bench_function("series", |bench| bench.iter(|| series(&history, &sites, &SeriesOptions::default())));
    group.finish();
}

criterion_group!(benches, stages);
criterion_main!(benches);
