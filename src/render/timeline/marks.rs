//! Where the labels of marks stand, so that none covers another and no leader crosses one.

/// Rows above the plot.
const ROWS: usize = 4;
/// Least distance between two things, in drawing units.
const GAP: i32 = 60;
/// Distance of a label from its leader, in drawing units.
pub(super) const OFFSET: i32 = 40;

/// A label that wants a place: the x of its leader and its width, in drawing units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub x: i32,
    pub width: i32,
}

/// A place: the row, 0 next to the plot, and the left edge of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub row: usize,
    pub left: i32,
}

/// Finds a place between `from` and `to` for each label, in the order of their importance. A label is a flag: its text
/// stands to the right of its leader or, where there is no room, to the left. `None` for one that fits nowhere.
pub(super) fn place(wanted: &[Wanted], from: i32, to: i32) -> Vec<Option<Place>> {
    let places = greedy(wanted, from, to);
    // The first two are the last OOM and the peak, often close to each other: with the flag of the first to the right,
    // the leader of a second one just right of it finds no way down.
    if let [first, second, rest @ ..] = wanted
        && places[1].is_none()
    {
        let order: Vec<Wanted> = [second, first].into_iter().chain(rest).copied().collect();
        let mut swapped = greedy(&order, from, to);
        swapped.swap(0, 1);
        if swapped[0].is_some() && swapped[1].is_some() {
            return swapped;
        }
    }
    places
}

fn greedy(wanted: &[Wanted], from: i32, to: i32) -> Vec<Option<Place>> {
    let mut placed: Vec<(Wanted, Place)> = Vec::new();
    wanted
        .iter()
        .map(|&label| {
            let found = (0..ROWS)
                .flat_map(|row| [label.x + OFFSET, label.x - OFFSET - label.width].map(|left| Place { row, left }))
                .filter(|p| p.left >= from && p.left + label.width <= to)
                .find(|&p| placed.iter().all(|&other| apart((label, p), other)))?;
            placed.push((label, found));
            Some(found)
        })
        .collect()
}

fn apart((a, pa): (Wanted, Place), (b, pb): (Wanted, Place)) -> bool {
    let off = |x: i32, w: Wanted, p: Place| x + GAP / 2 <= p.left || x >= p.left + w.width + GAP / 2;
    match pa.row.cmp(&pb.row) {
        std::cmp::Ordering::Equal => {
            let disjoint = pa.left + a.width + GAP <= pb.left || pb.left + b.width + GAP <= pa.left;
            disjoint && off(a.x, b, pb) && off(b.x, a, pa)
        }
        // The leader of the higher one comes down past the lower one.
        std::cmp::Ordering::Less => off(b.x, a, pa),
        std::cmp::Ordering::Greater => off(a.x, b, pb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_at_the_same_place_use_rows() {
        let label = Wanted { x: 900, width: 500 };
        let places = place(&[label, label, label], 0, 1_000);
        let at = |row| Some(Place { row, left: 360 });
        assert_eq!(places, [at(0), at(1), at(2)]);
    }

    #[test]
    fn a_leader_never_crosses_a_label() {
        // The third would stand in row 1, but its leader would cross the text of the second.
        let [a, b, c] = [100, 1_000, 1_200].map(|x| Wanted { x, width: 500 });
        let at = |left| Some(Place { row: 0, left });
        assert_eq!(place(&[a, b, c], 0, 1_600), [at(140), at(1_040), None]);
    }

    #[test]
    fn a_peak_just_after_the_oom_finds_a_place() {
        let [oom, peak] = [1_000, 1_090].map(|x| Wanted { x, width: 500 });
        assert_eq!(place(&[oom, peak], 0, 2_000).iter().flatten().count(), 2);
        assert_eq!(place(&[peak, oom], 0, 2_000).iter().flatten().count(), 2);
    }

    #[test]
    fn many_labels_never_overlap() {
        let wanted: Vec<Wanted> = (0..200).map(|i| Wanted { x: i * 37 % 8_000, width: 300 + i * 13 % 700 }).collect();
        let places = place(&wanted, 0, 8_000);
        let found: Vec<_> = wanted.iter().zip(&places).filter_map(|(w, p)| p.map(|p| (*w, p))).collect();
        assert!(found.len() > 10);
        for (i, &a) in found.iter().enumerate() {
            assert!(found[..i].iter().all(|&b| apart(a, b)));
        }
    }
}
