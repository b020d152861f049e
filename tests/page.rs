//! `report.html` in a real browser: what is written, what the script does, and what hostile names do not.

mod common;
#[path = "common/webdriver.rs"]
mod webdriver;

use std::fs;
use std::path::{Path, PathBuf};

use common::{files, is_pickle, oomscope, shared_data, testdata};
use serde_json::{Value, json};
use webdriver::Browser;

/// Largest page.
const LIMIT: u64 = 5_000_000;

const HOSTILE: [&str; 6] = [
    "<script>window.hacked=1</script>",
    "\"><img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked=1</script>",
    "${window.hacked=1}",
    "<!--<script>",
    "' onmouseover='window.hacked=1",
];

/// The page of `file` in a directory of its own.
fn page(file: &Path) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let run = oomscope(["report".as_ref(), file.as_os_str(), "-o".as_ref(), directory.path().as_os_str()]);
    assert_eq!(run.status, 0, "{}: {}", file.display(), run.stderr);
    let page = directory.path().join("report.html");
    (directory, page)
}

/// A snapshot whose frames have these names; the first name allocates most.
fn snapshot_with_names(names: &[String], devices: usize) -> Value {
    let mib = 1u64 << 20;
    let frames = |name: &str| json!([{"name": name, "filename": format!("{name}.py"), "line": 7}]);
    let mut traces = Vec::new();
    let mut segments = Vec::new();
    for device in 0..devices {
        let mut trace = Vec::new();
        for (at, name) in (0u64..).zip(names) {
            let (address, size) = ((at + 1) << 32, (64 - (at % 60)) * mib);
            let requested = size / 2;
            let event = |action: &str, size: u64| json!({"action": action, "addr": address, "size": size, "stream": 0, "frames": frames(name), "time_us": 1_000 + at});
            trace.extend([event("segment_alloc", size), event("alloc", requested)]);
            segments.push(json!({
                "device": device, "address": address, "total_size": size, "allocated_size": requested,
                "active_size": requested, "requested_size": requested, "stream": 0, "segment_type": "large",
                "segment_pool_id": [0, 0], "is_expandable": false, "frames": [],
                "blocks": [
                    {"address": address, "size": requested, "requested_size": requested, "state": "active_allocated", "frames": frames(name)},
                    {"address": address + requested, "size": requested, "requested_size": 0, "state": "inactive", "frames": []},
                ],
            }));
        }
        trace.push(json!({"action": "oom", "addr": mib, "device_free": mib, "size": 100 * mib, "stream": 0, "frames": [], "time_us": 9_000}));
        traces.push(trace);
    }
    json!({"segments": segments, "device_traces": traces, "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": names[0]}})
}

fn written(directory: &Path, snapshot: &Value) -> PathBuf {
    let path = directory.join("hostile.json");
    fs::write(&path, snapshot.to_string()).unwrap();
    path
}

#[test]
fn pages_are_bounded_and_refer_to_nothing() {
    let names: Vec<String> = HOSTILE.iter().map(|name| format!("{name}{}", "<&\"x".repeat(20_000))).collect();
    let many: Vec<String> = (0..400).map(|at| format!("{at}{}", "<&\"x".repeat(60))).collect();
    let directory = tempfile::tempdir().unwrap();
    let mut made: Vec<PathBuf> = ["cases", "rig/2.6.0", "rig/2.15.0", "rig/2.0.1"]
        .iter()
        .flat_map(|name| files(&testdata().join(name), is_pickle))
        .filter(|path| oomscope(["info".as_ref(), path.as_os_str()]).status == 0)
        .collect();
    for (at, snapshot) in [snapshot_with_names(&names, 20), snapshot_with_names(&many, 18)].iter().enumerate() {
        let path = directory.path().join(format!("names{at}.json"));
        fs::write(&path, snapshot.to_string()).unwrap();
        made.push(path);
    }
    if let Some(data) = shared_data() {
        made.extend(files(&data.join("large"), |name| name.ends_with(".pickle.gz") && name.contains("2.6.0")));
    }
    for file in made {
        let (_directory, page) = page(&file);
        let size = fs::metadata(&page).unwrap().len();
        assert!(size < LIMIT, "{}: {size} bytes", file.display());
        let html = fs::read_to_string(&page).unwrap();
        assert!(html.contains("default-src 'none'"), "{}", file.display());
        let links = html.matches("href=\"").count();
        assert_eq!(links, html.matches("href=\"#").count(), "{}: links lead into the page only", file.display());
        assert_eq!(html.matches("</script>").count(), 2, "{}", file.display());
        for foreign in ["<img", "<link", "<iframe", "src=\"", "@import"] {
            assert!(!html.contains(foreign), "{}: {foreign}", file.display());
        }
    }
}

#[test]
fn the_page_answers_to_pointer_and_keys() {
    let Some(browser) = Browser::start() else { return };
    let (_directory, page) = page(&testdata().join("rig/2.6.0/oom_train.pickle"));
    browser.open(&page);
    assert_eq!(browser.console(), [""; 0], "errors on the console");
    let requests = browser.run("return performance.getEntriesByType('resource').length");
    assert_eq!(requests, 0, "the page loads something");

    // Hovering a band tells its line, size and stack.
    browser.run("document.querySelector('canvas').scrollIntoView({block: 'center'})");
    let place = |share: f64, height: f64| {
        let script = "const b = document.querySelector('canvas').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]";
        let found = browser.run(script);
        let of = |at: usize| found[at].as_f64().unwrap();
        (of(0) + share * of(2), of(1) + height * of(3))
    };
    let tip = "const t = document.getElementById('tip'); return t.hidden ? '' : t.innerText";
    browser.point(place(0.68, 0.88), false);
    let text = browser.run(tip);
    let text = text.as_str().unwrap();
    assert!(text.contains("gpt.py:") && text.contains("MiB") && text.contains("<module>"), "{text}");

    // By block: also its address and life span.
    browser.run("[...document.querySelectorAll('.tools button')].find(b => b.innerText === 'by block').click()");
    browser.point(place(0.6, 0.85), false);
    let text = browser.run(tip);
    let text = text.as_str().unwrap();
    assert!(text.contains("allocated at event") && text.contains("0x") && text.contains("<module>"), "{text}");

    // A click lists the live set then; the figures are those of `top`.
    let live = "return document.querySelector('.live').innerText";
    let before = browser.run(live);
    browser.point(place(0.5, 0.5), true);
    let after = browser.run(live);
    assert_ne!(before, after);
    let event: String = after.as_str().unwrap().split("after event ").nth(1).unwrap().split(':').next().unwrap().into();
    let event = event.replace(' ', "");
    let top = common::json_of(&["top", "testdata/rig/2.6.0/oom_train.pickle", "--at", &event, "--json"]);
    let shown =
        browser.run("return [...document.querySelectorAll('.live td[data-key]')].map(c => Number(c.dataset.key))");
    assert_eq!(shown[0], top["rows"][0]["bytes"].as_f64().unwrap());
    assert_eq!(shown[3], top["rows"][1]["bytes"].as_f64().unwrap());

    // Keys move the instant, zoom, and walk through the bands.
    browser.run("document.querySelector('canvas').focus()");
    browser.press("\u{e012}");
    assert_ne!(browser.run(live), after, "left arrow");
    browser.press("++\u{e013}");
    let text = browser.run(tip);
    assert_ne!(text, "", "up arrow tells a ribbon");
    browser.press("0\u{e010}");
    assert!(browser.run(live).as_str().unwrap().contains("after event 600"), "End");

    // Tables sort and filter.
    let first =
        "return [...document.querySelectorAll('#t-sites-0 tbody tr')].filter(r => !r.hidden).map(r => r.innerText)";
    let rows = browser.run(first);
    browser.run("document.querySelector('#t-sites-0 th:nth-child(4) button').focus()");
    browser.press("\u{e007}");
    let sorted = browser.run(
        "return [...document.querySelectorAll('#t-sites-0 tbody tr td:nth-child(4)')].map(c => Number(c.dataset.key))",
    );
    let blocks: Vec<u64> = sorted.as_array().unwrap().iter().map(|n| n.as_f64().unwrap() as u64).collect();
    assert!(blocks.is_sorted_by(|a, b| a >= b) && blocks.len() > 5, "{blocks:?}");
    assert_eq!(browser.run("return document.querySelector('#t-sites-0 th:nth-child(4)').ariaSort"), "descending");
    browser.run("document.querySelector('#sites-0 input').focus()");
    browser.press("gpt.py:18");
    let filtered = browser.run(first);
    let filtered = filtered.as_array().unwrap();
    assert!(!filtered.is_empty() && filtered.len() < rows.as_array().unwrap().len());
    assert!(filtered.iter().all(|row| row.as_str().unwrap().contains("gpt.py:18")));

    // Flame graphs zoom.
    let width = "return document.querySelectorAll('.frame')[2].getAttribute('width')";
    let narrow = browser.run(width);
    browser.run("document.querySelectorAll('.frame')[2].dispatchEvent(new MouseEvent('click'))");
    assert_eq!(browser.run(width), "100%");
    assert_ne!(narrow, "100%");

    // The map by line.
    browser.run("document.querySelector('.by-site').click()");
    assert_eq!(browser.run("return getComputedStyle(document.querySelector('.picture.state')).visibility"), "hidden");
    assert_eq!(browser.console(), [""; 0], "errors on the console");
}

#[test]
fn hostile_names_are_text() {
    let Some(browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let names: Vec<String> = HOSTILE.iter().map(|&name| name.to_owned()).collect();
    let (_directory, page) = page(&written(directory.path(), &snapshot_with_names(&names, 1)));
    browser.open(&page);
    // Hover every part of the page that tells a name.
    browser.run(
        "for (const e of document.querySelectorAll('*')) for (const n of ['mouseover', 'pointermove', 'focus', 'click']) \
         if (e.tagName !== 'A') e.dispatchEvent(new PointerEvent(n, {bubbles: true, clientX: 400, clientY: 300}))",
    );
    assert_eq!(browser.run("return window.hacked === undefined"), true);
    assert_eq!(browser.run("return document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.run("return document.scripts.length"), 2);
    assert_eq!(browser.console(), [""; 0], "errors on the console");
    let text = browser.run("return document.body.innerText");
    for name in HOSTILE {
        assert!(text.as_str().unwrap().contains(name), "{name} is not shown");
    }
    // What could be injected all the same would not run.
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 2'; document.body.append(s)",
    );
    assert_eq!(browser.run("return window.hacked === undefined"), true);
}

#[test]
fn files_without_history_or_stacks_have_a_page_too() {
    let Some(browser) = Browser::start() else { return };
    for (file, said) in [
        ("cases/10_sleep_pool.pickle", "no history"),
        ("cases/12_list_2022.pickle", "no history"),
        ("rig/2.6.0/train_late.pickle", "No live block has a stack"),
        ("rig/2.6.0/multigpu.pickle", "Device 1"),
    ] {
        let (_directory, page) = page(&testdata().join(file));
        browser.open(&page);
        assert_eq!(browser.console(), [""; 0], "{file}");
        let text = browser.run("return document.body.innerText");
        assert!(text.as_str().unwrap().contains(said), "{file}: {text}");
    }
}
