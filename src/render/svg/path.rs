//! Path strings that are as short as SVG allows.

use std::fmt::Write;

/// Appends the path through `points` in relative coordinates; a `closed` one returns to its start.
///
/// Equal consecutive points are written once, and so are points on the way of a horizontal or vertical run, which is
/// what a step chart with a plateau consists of. Fewer than two distinct points give an empty path.
pub fn write(out: &mut String, points: impl IntoIterator<Item = (i32, i32)>, closed: bool) {
    let mut points = points.into_iter().map(|(x, y)| (i64::from(x), i64::from(y)));
    let Some(start) = points.next() else { return };
    let mut at = start;
    let mut pending: Option<(i64, i64)> = None;
    let mut pen = Pen { out, last: None };
    for point in points {
        let step = (point.0 - at.0, point.1 - at.1);
        at = point;
        match pending {
            _ if step == (0, 0) => {}
            Some((dx, 0)) if step.1 == 0 && (dx > 0) == (step.0 > 0) => pending = Some((dx + step.0, 0)),
            Some((0, dy)) if step.0 == 0 && (dy > 0) == (step.1 > 0) => pending = Some((0, dy + step.1)),
            _ => {
                pen.step(start, pending.replace(step));
            }
        }
    }
    pen.step(start, pending);
    if closed && pen.last.is_some() {
        pen.out.push('z');
    }
}

struct Pen<'a> {
    out: &'a mut String,
    /// The command last written.
    last: Option<char>,
}

impl Pen<'_> {
    fn step(&mut self, start: (i64, i64), step: Option<(i64, i64)>) {
        let Some((dx, dy)) = step else { return };
        if self.last.is_none() {
            let _ = write!(self.out, "M{} {}", start.0, start.1);
        }
        let command = match (dx, dy) {
            (_, 0) => 'h',
            (0, _) => 'v',
            _ => 'l',
        };
        // A repeated `l` needs no letter. Repeated `h` or `v` are reversals, and rare.
        let repeated = self.last.replace(command) == Some(command);
        if !repeated {
            self.out.push(command);
        }
        let first = if command == 'v' { dy } else { dx };
        let gap = if repeated && first >= 0 { " " } else { "" };
        let _ = write!(self.out, "{gap}{first}");
        if command == 'l' {
            let gap = if dy >= 0 { " " } else { "" };
            let _ = write!(self.out, "{gap}{dy}");
        }
    }
}

#[cfg(test)]
mod tests {
    fn path(points: &[(i32, i32)], closed: bool) -> String {
        let mut out = String::new();
        super::write(&mut out, points.iter().copied(), closed);
        out
    }

    #[test]
    fn steps_are_short() {
        assert_eq!(path(&[(0, 10), (5, 10), (5, 10), (9, 10), (9, 3), (12, 3)], false), "M0 10h9v-7h3");
        assert_eq!(path(&[(0, 0), (5, 5), (10, 0), (10, 0)], true), "M0 0l5 5 5-5z");
        assert_eq!(path(&[(0, 0), (5, 0), (2, 0), (4, 0)], false), "M0 0h5-3 2");
    }

    #[test]
    fn degenerate_paths() {
        assert_eq!(path(&[], true), "");
        assert_eq!(path(&[(3, 3)], true), "");
        assert_eq!(path(&[(3, 3), (3, 3)], true), "");
        assert_eq!(path(&[(i32::MIN, 0), (i32::MAX, 0)], false), "M-2147483648 0h4294967295");
    }
}
