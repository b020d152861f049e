//! Timeline pictures: golden files, and what must hold for every picture whatever the series holds.
//!
//! `OOMSCOPE_BLESS=1 cargo test --test timeline_svg` rewrites the golden files; look at them before committing.

use std::path::Path;

use oomscope::analysis::series::{Band, Limit, Mark, MarkKind, OTHER, Series, Unit, What};
use oomscope::render::svg::text_width;
use oomscope::render::timeline::{TimelineOptions, timeline_svg};

const MIB: u64 = 1 << 20;

fn band(site: &str, values: &[u64]) -> Band {
    let detail = Some(format!("forward\n/home/me/{site}"));
    Band { site: site.into(), detail, values: values.to_vec(), ..Band::default() }
}

fn mark(kind: MarkKind, x: u64, label: &str) -> Mark {
    Mark { kind, x, x_end: None, label: label.into() }
}

/// Memory that grows in steps until an OOM, with names that try to break out of the file.
fn hostile() -> Series {
    let rise = |step: u64| (0..40).map(|i| (i / 4 * step + i % 4) * MIB).collect::<Vec<_>>();
    Series {
        device: 0,
        what: What::Live,
        by: "site",
        active: vec![],
        lowest: vec![],
        requested: vec![],
        limit: None,
        steps: None,
        x: (0..40).map(|i| i * 10).collect(),
        x_end: 400,
        unit: Unit::Event,
        bands: vec![
            band("train.py:41", &rise(60)),
            band("</text><script>alert(1)</script>", &rise(30)),
            band("\" onload='x' \0\x1b[31m\u{202e}\u{ffff}&amp;", &rise(9)),
            band(&format!("/a/{}/module.py:7", "long/".repeat(60)), &rise(5)),
            band(OTHER, &[3 * MIB; 40]),
        ],
        reserved: (0..40).map(|i| (i / 4 + 1) * 110 * MIB).collect(),
        capacity: Some(1_120 * MIB),
        marks: vec![
            mark(MarkKind::Step, 100, "step 1"),
            mark(MarkKind::Oom, 360, "OOM: 128.0 MiB <asked>"),
            mark(MarkKind::Oom, 399, "OOM: 256.0 MiB asked"),
            mark(MarkKind::Peak, 395, "peak 979.0 MiB"),
        ],
    }
}

/// Two devices in time; the second has no peak mark and a capacity far above.
fn two_devices() -> [Series; 2] {
    let wave = |device: i64, capacity| Series {
        device,
        what: What::Live,
        by: "site",
        active: vec![],
        lowest: vec![150 * MIB; 60],
        requested: vec![],
        limit: Some(Limit { bytes: 460 * MIB, exact: device == 0 }),
        steps: None,
        x: (0..60).map(|i| i * 50_000).collect(),
        x_end: 3_000_000,
        unit: Unit::Microseconds,
        bands: vec![
            band("model.py:10", &[200 * MIB; 60]),
            band("model.py:22", &(0..60).map(|i| (i % 20) * (7 + device as u64) * MIB).collect::<Vec<_>>()),
        ],
        reserved: vec![400 * MIB; 60],
        capacity,
        marks: (1..6).map(|i| mark(MarkKind::Step, i * 500_000, &format!("step {i}"))).collect(),
    };
    [wave(0, Some(500 * MIB)), wave(1, Some(80 << 30))]
}

fn options(title: &str) -> TimelineOptions {
    TimelineOptions { title: title.into(), ..TimelineOptions::default() }
}

/// Draws, and checks what must hold for every picture.
fn drawn(series: &[Series], options: &TimelineOptions) -> String {
    let svg = timeline_svg(series, options);
    let lower = svg.to_lowercase();
    assert!(!lower.contains("<script") && !lower.contains(" onload=\"") && !lower.contains("href"));
    let document = roxmltree::Document::parse(&svg).expect("well-formed XML");
    let size: Vec<i64> = ["width", "height"]
        .map(|name| document.root_element().attribute(name).and_then(|v| v.parse().ok()).expect("a size"))
        .to_vec();
    let texts: Vec<(i32, i32, i32, i32, &str)> = document.descendants().filter_map(text_box).collect();
    for (i, a) in texts.iter().enumerate() {
        assert!(a.0 >= 0 && i64::from(a.1) <= size[0] * 10 && i64::from(a.3) <= size[1] * 10, "outside: {a:?}");
        for b in &texts[..i] {
            assert!(a.1 <= b.0 || b.1 <= a.0 || a.3 <= b.2 || b.3 <= a.2, "overlap: {a:?} and {b:?}");
        }
    }
    svg
}

/// Left, right, top and bottom of a text.
fn text_box<'a>(node: roxmltree::Node<'a, '_>) -> Option<(i32, i32, i32, i32, &'a str)> {
    if node.tag_name().name() != "text" {
        return None;
    }
    let number = |name| node.attribute(name).and_then(|v: &str| v.parse::<i32>().ok()).expect("a number");
    let (x, y, size) = (number("x"), number("y"), number("font-size"));
    let text = node.text().unwrap_or("");
    let width = text_width(text, size, node.attribute("font-weight") == Some("bold"));
    let left = match node.attribute("text-anchor") {
        Some("middle") => x - width / 2,
        Some("end") => x - width,
        _ => x,
    };
    Some((left, left + width, y - size * 3 / 4, y + size / 5, text))
}

fn golden(name: &str, svg: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden").join(name);
    if std::env::var_os("OOMSCOPE_BLESS").is_some() {
        std::fs::write(&path, svg).expect("write the golden file");
    }
    let expected = std::fs::read_to_string(&path).expect("a golden file: run with OOMSCOPE_BLESS=1");
    assert!(svg == expected, "{name} changed: run with OOMSCOPE_BLESS=1, look at it, commit it");
}

#[test]
fn hostile_names() {
    let svg = drawn(&[hostile()], &options("<b>rank \u{1b}0</b>.pickle"));
    golden("timeline_hostile.svg", &svg);
    assert!(svg.contains("&lt;/text&gt;&lt;script&gt;alert(1)"));
}

#[test]
fn several_devices() {
    let svg = drawn(&two_devices(), &options("train.pickle"));
    golden("timeline_two_devices.svg", &svg);
    assert!(svg.contains("peak 352.0 MiB") && svg.contains("↑ capacity 80.00 GiB"));
}

/// Blocks that come and go, steps, a named region and a limit.
fn ribbons() -> Series {
    let block = |site: &str, from: usize, to: usize, mib: u64| {
        band(site, &(0..40).map(|i| if (from..to).contains(&i) { mib * MIB } else { 0 }).collect::<Vec<_>>())
    };
    let region = |x, x_end, label: &str| Mark { x_end: Some(x_end), ..mark(MarkKind::Annotation, x, label) };
    let step = |i: u64| Mark { x_end: Some(i * 100 + 100), ..mark(MarkKind::Step, i * 100, &format!("step {i}")) };
    let mut marks: Vec<Mark> = (0..4).map(step).collect();
    marks.extend([region(20, 180, "forward <pass>"), region(40, 90, "attention"), region(350, 352, "short")]);
    Series {
        what: What::Blocks,
        bands: vec![
            block("model.py:1", 0, 40, 200),
            block("model.py:7", 3, 12, 300),
            block("model.py:7", 15, 30, 300),
            block("model.py:9", 20, 33, 120),
            block(OTHER, 0, 40, 16),
        ],
        requested: vec![100 * MIB; 40],
        limit: Some(Limit { bytes: 1_000 * MIB, exact: false }),
        marks,
        ..hostile()
    }
}

#[test]
fn blocks_are_ribbons() {
    let svg = drawn(&[ribbons()], &options("blocks.pickle"));
    golden("timeline_blocks.svg", &svg);
    assert!(svg.contains("model.py:7 ×2") && svg.contains("forward &lt;pass&gt;"), "{svg}");
}

#[test]
fn many_ribbons_are_bounded() {
    let mut state = 11u64;
    let mut noise = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let bands = (0..1_000)
        .map(|i| band(&format!("file.py:{}", i % 50), &(0..1_200).map(|_| noise() % 5 * MIB).collect::<Vec<_>>()))
        .collect();
    let series = Series { what: What::Blocks, x: (0..1_200).collect(), x_end: 1_200, bands, ..hostile() };
    let svg = drawn(&[series], &options("noise.pickle"));
    assert!(svg.len() < 2_000_000, "{}", svg.len());
}

#[test]
fn the_size_is_bounded() {
    // A generator without structure: nothing can be merged.
    let mut state = 7u64;
    let mut noise = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) * 100
    };
    let mut make = |columns: u64, bands: usize| Series {
        x: (0..columns).collect(),
        x_end: columns,
        bands: (0..bands)
            .map(|i| band(&format!("file.py:{i}"), &(0..columns).map(|_| noise()).collect::<Vec<_>>()))
            .collect(),
        reserved: (0..columns).map(|_| noise() * 20).collect(),
        marks: (0..columns)
            .map(|x| mark([MarkKind::Step, MarkKind::Oom][x as usize % 2], x, "OOM: 1 B asked"))
            .collect(),
        ..hostile()
    };
    let typical = drawn(&[make(1_200, 20)], &options("noise.pickle"));
    assert!(typical.len() < 600_000, "{}", typical.len());
    let large = drawn(&[make(50_000, 100)], &options("noise.pickle"));
    assert!(large.len() < 1_000_000, "{}", large.len());
    let many: Vec<Series> = (0..100).map(|_| make(300, 30)).collect();
    let panels = drawn(&many, &options("noise.pickle"));
    assert!(panels.len() < 2_000_000, "{}", panels.len());
    assert!(panels.contains("36 more devices are not shown"));
}

#[test]
fn the_peak_survives_the_reduction() {
    let mut values = vec![MIB; 30_000];
    values[17_123] = 900 * MIB;
    let series = Series {
        x: (0..30_000).collect(),
        x_end: 30_000,
        bands: vec![band("a.py:1", &values)],
        reserved: vec![],
        capacity: None,
        marks: vec![],
        ..hostile()
    };
    let svg = drawn(&[series], &options("spike.pickle"));
    assert!(svg.contains("peak 900.0 MiB") && svg.contains("event 17 1"), "{svg}");
}

#[test]
fn any_series_gives_a_picture() {
    let empty = Series { x: vec![], x_end: 0, bands: vec![], reserved: vec![], marks: vec![], ..hostile() };
    let zeros = Series { bands: vec![band("a.py:1", &[0; 40])], reserved: vec![0; 40], capacity: None, ..hostile() };
    let one = Series { x: vec![5], x_end: 5, ..hostile() };
    let huge = Series {
        device: i64::MIN,
        x: vec![0, u64::MAX / 2, u64::MAX],
        x_end: u64::MAX,
        bands: vec![band("a.py:1", &[u64::MAX; 3]), band("b.py:2", &[u64::MAX; 3]), band(OTHER, &[1; 3])],
        reserved: vec![u64::MAX; 3],
        capacity: Some(u64::MAX),
        marks: vec![mark(MarkKind::Oom, u64::MAX, &"x".repeat(100_000)), mark(MarkKind::Peak, 0, "")],
        ..hostile()
    };
    let late = Series { x: vec![u64::MAX - 3, u64::MAX - 2], x_end: u64::MAX, ..hostile() };
    let disordered = Series { x: vec![9, 3, 7, 1], x_end: 2, reserved: vec![1], ..hostile() };
    let lone_capacity = Series { capacity: Some(1), ..empty.clone() };
    for unit in [Unit::Event, Unit::Microseconds] {
        for (series, what) in [&empty, &zeros, &one, &huge, &late, &disordered, &lone_capacity]
            .into_iter()
            .flat_map(|series| [What::Live, What::Blocks, What::Segments].map(|what| (series, what)))
        {
            let series = Series { unit, what, ..series.clone() };
            for width in [0, 800, 1_200, u32::MAX] {
                let options = TimelineOptions { title: "x".repeat(500), width, height: Some(width) };
                drawn(std::slice::from_ref(&series), &options);
            }
        }
    }
    drawn(&[], &options(""));
}
