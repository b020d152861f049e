//! Names of frames in proportion to the file.
//!
//! A file can name one long text in every frame at a few bytes each, and results name every line of code: written out,
//! they would be a hundred times the file.

use super::builder::SnapshotBuilder;

/// Bytes that all frames may take, each written out with its names, whatever else there is.
const ALLOWANCE: usize = 2 << 20;

/// Bytes that they may take for each byte of distinct text and of [`FRAME`]. Real files need less than 1.
const PER_BYTE: usize = 4;

/// Bytes that a frame takes in a file at least.
const FRAME: usize = 16;

/// Bytes of a name that are always kept.
const SHORTEST: usize = 192;

impl SnapshotBuilder {
    /// Cuts long names of frames where the frames, written out, would be out of proportion to what they are made from.
    pub(super) fn bound_names(&mut self) {
        let frames = &self.frames.rows;
        let texts = frames.iter().flat_map(|frame| [frame.name, frame.filename]);
        let written: usize = texts.clone().map(|text| self.strings.get(text).len()).sum();
        let allowed = ALLOWANCE + PER_BYTE * (self.strings.bytes() + FRAME * frames.len());
        if written <= allowed {
            return;
        }
        let most = (allowed / (2 * frames.len())).max(SHORTEST);
        let mut cut = vec![false; self.strings.len()];
        texts.filter(|&text| self.strings.get(text).len() > most).for_each(|text| cut[text.index()] = true);
        self.cut_texts += cut.iter().filter(|&&cut| cut).count() as u64;
        self.strings = self.strings.shortened(|text| cut[text.index()], most);
    }
}

#[cfg(test)]
mod tests {
    use crate::pickle::Builder;
    use crate::snapshot::intern::Frame;

    use super::*;

    fn builder(frames: u32, length: usize) -> SnapshotBuilder {
        let mut builder = SnapshotBuilder::new();
        builder.text(b"before");
        let filename = builder.strings.intern("é".repeat(length / 2).as_bytes()).unwrap();
        builder.text(b"behind");
        for line in 1..=frames {
            builder.frames.intern(Frame { filename, line, ..Frame::default() }).unwrap();
        }
        builder.bound_names();
        builder
    }

    #[test]
    fn only_what_is_out_of_proportion_is_cut() {
        for (frames, length, cut) in [(30_000, 190, 0), (100, 16_000, 0), (30_000, 16_000, 1)] {
            let mut builder = builder(frames, length);
            assert_eq!(builder.cut_texts, cut);
            let kept = builder.strings.get(builder.frames.rows[1].filename).len();
            assert_eq!(kept, if cut == 0 { length } else { SHORTEST });
            // The texts around it are what they were, and keep their numbers.
            let count = builder.strings.len();
            let [before, behind] = ["before", "behind"].map(|text| builder.strings.intern(text.as_bytes()).unwrap());
            assert_eq!((builder.strings.len(), behind.0 - before.0), (count, 2));
            assert_eq!([before, behind].map(|id| builder.strings.get(id)), ["before", "behind"]);
        }
    }
}
