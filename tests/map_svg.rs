//! Maps of memory: what must hold for every picture.

mod common;

use common::{files, is_pickle, json_of, oomscope, read, shared_data, testdata};
use oomscope::analysis::layout::{Layout, LayoutOptions, layout};
use oomscope::analysis::sites::{By, Sites};
use oomscope::history::{At, History};
use oomscope::render::map::{ColourBy, MapOptions, map_svg};
use oomscope::render::svg::text_width;

const DECODE: &str = "testdata/rig/2.6.0/decode_atoom.pickle";

/// Checks that texts lie within the picture and apart from each other.
fn check(svg: &str, name: &str) {
    let document = roxmltree::Document::parse(svg).unwrap_or_else(|error| panic!("{name}: {error}"));
    let size: Vec<i32> = ["width", "height"]
        .map(|attribute| document.root_element().attribute(attribute).unwrap().parse().unwrap())
        .to_vec();
    let texts: Vec<_> = document.descendants().filter(|node| node.has_tag_name("text")).map(text_box).collect();
    for (at, a) in texts.iter().enumerate() {
        assert!(a.0 >= 0 && a.1 <= size[0] * 10 && a.2 >= 0 && a.3 <= size[1] * 10, "{name}: outside: {a:?}");
        for b in &texts[..at] {
            assert!(a.1 <= b.0 || b.1 <= a.0 || a.3 <= b.2 || b.3 <= a.2, "{name}: {a:?} and {b:?} overlap");
        }
    }
}

/// Left, right, top and bottom of a text.
fn text_box<'a>(node: roxmltree::Node<'a, '_>) -> (i32, i32, i32, i32, &'a str) {
    let number = |name| node.attribute(name).and_then(|value: &str| value.parse::<i32>().ok()).expect("a number");
    let (x, y, size) = (number("x"), number("y"), number("font-size"));
    let text = node.text().unwrap_or("");
    let width = text_width(text, size, node.attribute("font-weight") == Some("bold"));
    let left = if node.attribute("text-anchor") == Some("end") { x - width } else { x };
    (left, left + width, y - size * 3 / 4, y + size / 5, text)
}

fn layouts(path: &std::path::Path) -> Vec<Layout> {
    let snapshot = read(path);
    let sites = Sites::new(&snapshot, By::Line);
    let each = |device| {
        let history = History::new(&snapshot, device, &snapshot.settings.rules);
        layout(&history, history.moment(At::Default).unwrap(), &sites, &LayoutOptions::default())
    };
    snapshot.devices.iter().map(each).collect()
}

#[test]
fn every_file_gives_a_bounded_picture_without_overlaps() {
    let mut paths = files(&testdata().join("rig"), is_pickle);
    if let Some(data) = shared_data() {
        for folder in ["rig", "allocator"] {
            paths.extend(files(&data.join(folder), is_pickle));
        }
    }
    for path in paths {
        let drawn = layouts(&path);
        for (colour, width) in [(ColourBy::State, 800), (ColourBy::Site, 1_200)] {
            let title = "a rather long name of a file ".repeat(8);
            let svg = map_svg(&drawn, &MapOptions { title, width, colour });
            assert!(svg.len() < 1_000_000, "{}: {} bytes", path.display(), svg.len());
            check(&svg, &path.display().to_string());
        }
    }
    check(&map_svg(&[], &MapOptions::default()), "nothing");
}

#[test]
fn pins_are_hatched() {
    let svg = oomscope(["map", DECODE]).stdout;
    assert!(svg.contains("<pattern id=\"hatch-"));
    for text in ["free, pinned", "78 segments", "full width 80 MiB", "0x7a00dd800000", "at the OOM"] {
        assert!(svg.contains(text), "{text}");
    }
    let by_site = oomscope(["map", DECODE, "--color", "site"]).stdout;
    assert!(by_site.contains(">workloads.py:128<"));
}

#[test]
fn the_json_has_every_block_of_a_small_file() {
    let map = json_of(&["map", DECODE, "--json"]);
    let rows = map["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 78);
    let cells = rows.iter().flat_map(|row| row["blocks"].as_array().unwrap());
    let live = cells.clone().filter(|cell| cell["state"] == "live");
    assert_eq!(live.clone().count(), 85);
    assert_eq!(live.map(|cell| cell["size"].as_u64().unwrap()).sum::<u64>(), map["devices"][0]["totals"]["allocated"]);
    assert_eq!(map["at"]["what"], "oom");
}
