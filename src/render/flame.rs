//! Flame graphs of memory: which calls lead to it.
//!
//! `inferno` lays the frames out; what it puts around them (a script, a style sheet, buttons) is left out, because
//! pictures of this program contain nothing that runs.

use std::collections::BTreeMap;
use std::fmt::Write;

use inferno::flamegraph::color::{BasicPalette, Color, PaletteMap};
use inferno::flamegraph::{Direction, Options, Palette, TextTruncateDirection, from_lines};

use super::palette;
use super::svg::{Rgb, escape, shorten_to};
use super::terminal::names::{shared_directory, without};
use crate::analysis::folded::{Folded, FoldedStack, joined};
use crate::analysis::ranking::Unit;
use crate::units::{bytes, count};

/// Height of a frame in pixels.
const FRAME: usize = 17;
/// Size of the letters in pixels.
const FONT: usize = 12;
/// Width of a letter in the size of the font: the wider ones of common monospace families.
const LETTER: f64 = 0.61;
/// Frames narrower than this share of the picture, in percent, are left out: nobody could see them.
const NARROWEST: f64 = 0.1;
/// Room at the sides, in pixels.
const SIDE: usize = 10;
/// What stands for the values in inferno's tooltips, until they are put into words.
const VALUES: &str = "units";

/// What the caller decides about a flame graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameOptions {
    /// Whose memory it is.
    pub title: String,
    /// What is counted, in one line.
    pub subtitle: String,
    /// Width of the picture in pixels, 400 to 8000.
    pub width: u32,
}

/// One row of frames on top of each other.
struct Panel {
    heading: String,
    /// The elements of its frames.
    frames: String,
    height: usize,
}

/// Draws `folded`, the root at the top, as an SVG file. `None` when nothing was counted.
///
/// The program's own frames have the colour of their line in a timeline, paler; those of torch are grey.
pub fn flame_svg(folded: &Folded, options: &FlameOptions) -> Option<String> {
    let names = Names::new([folded]);
    let mut colours = PaletteMap::default();
    colours.insert("", pale(palette::OTHER));
    for frame in folded.stacks.iter().flat_map(|stack| &stack.frames) {
        let colour = if folded.own.contains(frame) { colour(frame) } else { pale(palette::OTHER) };
        colours.insert(names.short(frame), colour);
    }
    let scale = Scale::of([folded]);
    let line = |stack: &FoldedStack| format!("{} {}", names.line(&stack.frames), scale.down(stack.value));
    let lines: Vec<String> = folded.stacks.iter().map(line).collect();
    let frames = panel(&lines, Some(&mut colours), folded.unit, scale, false, width(options))?;
    Some(picture(options, &[frames]))
}

/// Draws what differs between `a` and `b`: the frames of `b`, red where they have grown since `a` and blue where they
/// have shrunk, then those of `a` in the same way. `None` when nothing was counted in either.
pub fn difference_svg(a: &Folded, b: &Folded, titles: (&str, &str), options: &FlameOptions) -> Option<String> {
    let (names, scale) = (Names::new([a, b]), Scale::of([a, b]));
    let mut values: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for stack in &a.stacks {
        let sum = &mut values.entry(names.line(&stack.frames)).or_default().0;
        *sum = sum.saturating_add(scale.down(stack.value));
    }
    for stack in &b.stacks {
        let sum = &mut values.entry(names.line(&stack.frames)).or_default().1;
        *sum = sum.saturating_add(scale.down(stack.value));
    }
    let forth: Vec<String> = values.iter().map(|(frames, (a, b))| format!("{frames} {a} {b}")).collect();
    let back: Vec<String> = values.iter().map(|(frames, (a, b))| format!("{frames} {b} {a}")).collect();
    let width = width(options);
    let heading = |title: &str, total: u64, what: &str| format!("{title}: {}, {what}", value(total, b.unit));
    let panels = [
        panel(&forth, None, b.unit, scale, false, width)
            .map(|panel| Panel { heading: heading(titles.1, b.total, "red has grown, blue has shrunk"), ..panel }),
        panel(&back, None, a.unit, scale, true, width)
            .map(|panel| Panel { heading: heading(titles.0, a.total, "what is blue here was given up"), ..panel }),
    ];
    let panels: Vec<Panel> = panels.into_iter().flatten().collect();
    if panels.is_empty() { None } else { Some(picture(options, &panels)) }
}

/// What values are divided by, as a power of two, where they are many: inferno multiplies their sum by 200 and more in
/// signed integers. What remains is exact to twelve digits.
#[derive(Clone, Copy)]
struct Scale(u32);

impl Scale {
    /// Bits of the largest sum.
    const BITS: u32 = 52;

    fn of<'f>(folded: impl IntoIterator<Item = &'f Folded>) -> Self {
        let stacks = folded.into_iter().flat_map(|folded| &folded.stacks);
        let total: u128 = stacks.map(|stack| u128::from(stack.value)).sum();
        Self((u128::BITS - total.leading_zeros()).saturating_sub(Self::BITS))
    }

    fn down(self, value: u64) -> u64 {
        value.checked_shr(self.0).unwrap_or(0)
    }

    /// About the value that `value` was made of.
    fn up(self, value: u64) -> u64 {
        u64::try_from(u128::from(value) << self.0.min(63)).unwrap_or(u64::MAX)
    }
}

/// Frames as they are shown: without the directories that all of the program's share, and without those of packages.
struct Names {
    shared: usize,
}

impl Names {
    fn new<'f>(folded: impl IntoIterator<Item = &'f Folded>) -> Self {
        let frames = folded.into_iter().flat_map(|folded| &folded.own);
        let places = frames.filter_map(|frame| place(frame)).filter(|place| package(place).is_none());
        Self { shared: shared_directory(places) }
    }

    fn short(&self, frame: &str) -> String {
        let Some(place) = place(frame) else { return frame.to_owned() };
        let short = package(place).unwrap_or_else(|| without(place, self.shared));
        format!("{}{short})", &frame[..frame.len() - place.len() - 1])
    }

    /// The stack for inferno.
    fn line(&self, frames: &[String]) -> String {
        joined(&frames.iter().map(|frame| self.short(frame)).collect::<Vec<_>>())
    }
}

/// `file:line` of a frame.
fn place(frame: &str) -> Option<&str> {
    frame.rsplit_once(" (").and_then(|(_, place)| place.strip_suffix(')'))
}

/// The part of a path behind the directory of installed packages.
fn package(place: &str) -> Option<&str> {
    ["/site-packages/", "/dist-packages/"].iter().find_map(|part| place.rsplit_once(part)).map(|(_, rest)| rest)
}

fn width(options: &FlameOptions) -> usize {
    options.width.clamp(400, 8_000) as usize
}

/// The frames that inferno draws for `lines`. `None` when all are zero.
fn panel(
    lines: &[String],
    colours: Option<&mut PaletteMap>,
    unit: Unit,
    scale: Scale,
    negate: bool,
    width: usize,
) -> Option<Panel> {
    let mut options = Options::default();
    options.colors = Palette::Basic(BasicPalette::Mem);
    options.deterministic = true;
    options.palette_map = colours;
    options.negate_differentials = negate;
    options.direction = Direction::Inverted;
    options.image_width = Some(width);
    options.frame_height = FRAME;
    options.font_size = FONT;
    options.font_width = LETTER;
    options.min_width = NARROWEST;
    options.count_name = VALUES.to_owned();
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.no_javascript = true;
    let mut written = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut written).ok()?;
    let written = String::from_utf8(written).ok()?;
    // The frames are all that is in the inner picture.
    let start = written.find("<svg id=\"frames\"")?;
    let start = start + written[start..].find('>')? + 1;
    let end = start + written[start..].find("</svg>")?;
    let mut frames = String::with_capacity(end - start);
    let (mut deepest, mut top) = (0usize, usize::MAX);
    for group in written[start..end].split_inclusive("</g>") {
        frames.push_str(&in_words(group, unit, scale));
        frames.push('\n');
        if let Some(y) = attribute(group, "y") {
            (deepest, top) = (deepest.max(y), top.min(y));
        }
    }
    // Frames begin below the room that inferno leaves for its own title.
    let shift = top.min(deepest);
    let frames = format!(
        "<svg x=\"{SIDE}\" y=\"0\" width=\"{}\" overflow=\"visible\">\n<g transform=\"translate(0 -{shift})\">\n{frames}</g>\n</svg>\n",
        width - 2 * SIDE
    );
    Some(Panel { heading: String::new(), frames, height: deepest - shift + FRAME })
}

/// The first attribute `name` with a whole number.
fn attribute(element: &str, name: &str) -> Option<usize> {
    let start = element.find(&format!(" {name}=\""))? + name.len() + 3;
    element[start..].split('"').next()?.parse().ok()
}

/// One frame with the value of its tooltip in words, and without inferno's notes for its script.
fn in_words(group: &str, unit: Unit, scale: Scale) -> String {
    let mut group = group.to_owned();
    let marker = format!(" {VALUES}, ");
    if let Some(end) = group.find("</title>")
        && let Some(at) = group[..end].rfind(&marker)
        && let Some(start) = group[..at].rfind('(')
        && let Ok(number) = group[start + 1..at].replace(',', "").parse::<u64>()
    {
        group.replace_range(start + 1..at + marker.len() - 2, &value(scale.up(number), unit));
    }
    if group.contains("<title>all (") {
        group = group.replacen("></text>", ">all</text>", 1);
    }
    for name in [" fg:x=\"", " fg:w=\""] {
        if let Some(start) = group.find(name)
            && let Some(length) = group[start + name.len()..].find('"')
        {
            group.replace_range(start..start + name.len() + length + 1, "");
        }
    }
    group
}

/// A value in words.
fn value(number: u64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => bytes(number),
        Unit::ByteMilliseconds => format!("{} × s", bytes(number / 1_000)),
        Unit::ByteEvents => format!("{} × events", bytes(number)),
        Unit::Allocations => format!("{} allocations", count(number)),
        Unit::Microseconds => crate::units::duration(number),
        Unit::Events => format!("{} events", count(number)),
    }
}

/// The panels below each other, under a title.
fn picture(options: &FlameOptions, panels: &[Panel]) -> String {
    let width = width(options);
    let heading = |panel: &Panel| if panel.heading.is_empty() { 0 } else { 28 };
    let height = 58 + panels.iter().map(|panel| heading(panel) + panel.height + 12).sum::<usize>();
    let room = 10 * (width as i32 - 2 * SIDE as i32);
    let title = shorten_to(&options.title, room, 170);
    let mut out = String::new();
    // A String never fails to be written to.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"monospace\" font-size=\"{FONT}\" role=\"img\" aria-label=\"{}\">",
        escape(&format!("{}: {}", options.title, options.subtitle))
    );
    let sans = "font-family=\"Helvetica,Arial,Liberation Sans,DejaVu Sans,sans-serif\"";
    let _ = writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>");
    let _ = writeln!(
        out,
        "<text x=\"{SIDE}\" y=\"24\" {sans} font-size=\"15\" font-weight=\"bold\" fill=\"#222222\">{}</text>",
        escape(&title)
    );
    let _ = writeln!(
        out,
        "<text x=\"{SIDE}\" y=\"44\" {sans} font-size=\"12\" fill=\"#666666\">{}</text>",
        escape(&shorten_to(&options.subtitle, room, 120))
    );
    let mut y = 58;
    for panel in panels {
        if !panel.heading.is_empty() {
            let _ = writeln!(
                out,
                "<text x=\"{SIDE}\" y=\"{}\" {sans} font-size=\"12\" font-weight=\"bold\" fill=\"#222222\">{}</text>",
                y + 16,
                escape(&shorten_to(&panel.heading, room, 130))
            );
            y += heading(panel);
        }
        let _ = writeln!(out, "<g transform=\"translate(0 {y})\">\n{}</g>", panel.frames);
        y += panel.height + 12;
    }
    out.push_str("</svg>\n");
    out
}

/// The colour of a frame: that of its line in a timeline.
fn colour(frame: &str) -> Color {
    let site = place(frame).unwrap_or(frame);
    pale(palette::paints([Some(site)]).first().map_or(palette::OTHER, |paint| paint.colour))
}

/// Pale enough for black letters.
fn pale((r, g, b): Rgb) -> Color {
    let mix = |c: u8| (f64::from(c) * 0.5 + 255.0 * 0.5).round() as u8;
    Color { r: mix(r), g: mix(g), b: mix(b) }
}
