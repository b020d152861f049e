//! Colours of sites: the same for a site in every picture of every file.

use super::svg::{Pattern, PatternKind, Rgb};
use crate::analysis::categories::Category;

/// Twelve colours found by maximising the smallest perceived difference (OKLab) between any two, and to the grey of
/// "other", as seen by normal eyes and with each of the three colour-vision deficiencies; their lightness varies enough
/// for grey print.
const COLOURS: [Rgb; 12] = [
    (0x29, 0xa8, 0x95),
    (0xd8, 0x63, 0x53),
    (0x78, 0xc7, 0xfd),
    (0x62, 0x2f, 0x8c),
    (0xf0, 0xc5, 0x43),
    (0x5f, 0x74, 0x9e),
    (0x9c, 0xbd, 0x82),
    (0x8d, 0x1c, 0x11),
    (0xa7, 0x80, 0xe6),
    (0x07, 0x59, 0x57),
    (0xd7, 0x97, 0x00),
    (0x93, 0x5a, 0x0f),
];

/// What belongs to no site of its own.
pub const OTHER: Rgb = (0xc8, 0xc8, 0xc8);

/// How the area of a site is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    /// The colour; the ground when there is a pattern.
    pub colour: Rgb,
    /// Set when a larger site of the picture has the colour already.
    pub pattern: Option<Pattern>,
}

/// Paints for sites in the order in which they lie next to each other, largest first; `None` is "other", in grey.
///
/// A colour follows from the site's name alone, unless its neighbour before has the same: then the next colour of the
/// site's own sequence is taken. Sites that share a colour without being neighbours differ by a pattern.
pub fn paints<'a>(sites: impl IntoIterator<Item = Option<&'a str>>) -> Vec<Paint> {
    let mut uses = [0usize; COLOURS.len()];
    let mut before = usize::MAX;
    let mut paints = Vec::new();
    for site in sites {
        let Some(site) = site else {
            before = usize::MAX;
            paints.push(Paint { colour: OTHER, pattern: None });
            continue;
        };
        let [first, second] = preferred(site);
        let index = if first == before { second } else { first };
        let colour = COLOURS[index];
        paints.push(Paint { colour, pattern: pattern(colour, uses[index]) });
        uses[index] += 1;
        before = index;
    }
    paints
}

/// Class `at` of `count` that have an order, from dark to light; `None` is "other", in grey.
pub fn shade(at: Option<usize>, count: usize) -> Paint {
    const DARK: [f64; 3] = [18.0, 58.0, 92.0];
    const MIDDLE: [f64; 3] = [60.0, 150.0, 170.0];
    const LIGHT: [f64; 3] = [222.0, 226.0, 160.0];
    let Some(at) = at else { return Paint { colour: OTHER, pattern: None } };
    let place = at as f64 / count.saturating_sub(1).max(1) as f64 * 2.0;
    let (from, to, part) = if place < 1.0 { (DARK, MIDDLE, place) } else { (MIDDLE, LIGHT, place - 1.0) };
    let mix = |i: usize| (from[i] + (to[i] - from[i]) * part.min(1.0)).round() as u8;
    Paint { colour: (mix(0), mix(1), mix(2)), pattern: None }
}

/// The two colours that a site gets, in order.
fn preferred(site: &str) -> [usize; 2] {
    // There are as many colours as categories, so that each has its own.
    if let Some(at) = Category::ALL.iter().position(|category| category.name() == site) {
        return [at % COLOURS.len(), (at + 1) % COLOURS.len()];
    }
    // FNV-1a, then multiplications that spread it, for names that differ in one digit must not get one colour. It must
    // never change, or old and new pictures disagree.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in site.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    for _ in 0..2 {
        hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash ^= hash >> 32;
    let first = (hash % 12) as usize;
    [first, (first + 1 + (hash / 12 % 11) as usize) % 12]
}

fn pattern(ground: Rgb, earlier_uses: usize) -> Option<Pattern> {
    const KINDS: [PatternKind; 4] = [PatternKind::Hatch, PatternKind::Dots, PatternKind::BackHatch, PatternKind::Cross];
    let kind = KINDS[earlier_uses.checked_sub(1)? % KINDS.len()];
    let luma = 0.299 * f64::from(ground.0) + 0.587 * f64::from(ground.1) + 0.114 * f64::from(ground.2);
    let toward = if luma > 150.0 { 0.0 } else { 255.0 };
    let mix = |c: u8| (f64::from(c) * 0.45 + toward * 0.55).round() as u8;
    Some(Pattern { kind, ground, ink: (mix(ground.0), mix(ground.1), mix(ground.2)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_stable() {
        // Pinned: a change would recolour every picture made before.
        assert_eq!([preferred("")[0], preferred("a")[0], preferred("train.py:41")[0]], [7, 10, 10]);
    }

    #[test]
    fn neighbours_differ_and_so_do_all_pairs() {
        let names: Vec<String> = (0..40).map(|i| format!("file.py:{i}")).collect();
        let paints = paints(names.iter().map(|n| Some(n.as_str())));
        for pair in paints.windows(2) {
            assert_ne!(pair[0].colour, pair[1].colour);
        }
        for (i, a) in paints[..20].iter().enumerate() {
            assert!(!paints[..i].contains(a), "{i}");
        }
    }

    #[test]
    fn other_is_grey() {
        assert_eq!(paints([None])[0], Paint { colour: OTHER, pattern: None });
    }
}
