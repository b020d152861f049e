//! Ends a pickle that broke off.

use super::super::{Builder, Kind};
use super::Machine;

impl<B: Builder> Machine<B> {
    /// Closes the open containers with what they had received, and answers with the outermost value, and with the
    /// containers that were open: they may lack items.
    ///
    /// A list keeps its complete items. A dict that was being filled is dropped, because a row without all its keys
    /// would be a wrong row, except for the outermost one, whose keys stand for themselves.
    pub fn salvage(mut self) -> (B, Option<B::Value>, Vec<B::Value>) {
        let open = self.open();
        // A dict on top has all its items or none yet: it is not seen which.
        let is_bare = self.stack.len() > self.floor().max(1);
        if is_bare && self.stack.last().is_some_and(|&top| self.builder.kind(top) == Kind::Dict) {
            self.stack.pop();
        }
        while let Some(mark) = self.marks.pop() {
            let items = self.stack.split_off(mark.min(self.stack.len()));
            let Some(&container) = self.stack.last() else { break };
            match self.builder.kind(container) {
                Kind::List => self.close_list(container, &items),
                Kind::Dict if self.stack.len() == 1 => self.close_outermost(container, &items),
                // An incomplete dict, or what stands in front of an incomplete tuple.
                _ => {
                    self.stack.pop();
                }
            }
        }
        let Some((&outermost, rest)) = self.stack.split_first() else { return (self.builder, None, open) };
        if self.builder.kind(outermost) == Kind::Dict {
            // Filled pair by pair, without a MARK.
            let rest = rest.to_vec();
            self.close_outermost(outermost, &rest);
        }
        (self.builder, Some(outermost), open)
    }

    /// What a MARK stands on, and what is on top. Without any MARK everything was to become part of what lies below it.
    fn open(&self) -> Vec<B::Value> {
        if self.marks.is_empty() {
            return self.stack.clone();
        }
        let marked = self.marks.iter().filter_map(|&mark| self.stack.get(mark.checked_sub(1)?));
        marked.chain(self.stack.last()).copied().collect()
    }

    /// Appends the items of an open batch. One of another kind than the first belongs to the item before it, which is
    /// a list of one: the pickler appends that without a MARK.
    fn close_list(&mut self, list: B::Value, items: &[B::Value]) {
        let Some(&first) = items.first() else { return };
        let kind = self.builder.kind(first);
        let alike = items.iter().take_while(|&&item| self.builder.kind(item) == kind).count();
        // The list stays as it was when it cannot take them.
        let _ = self.builder.append(list, &items[..alike], true);
    }

    /// Sets the complete pairs of the outermost dict. A list in place of a key lies in the list before it, as its only
    /// item; what stands there else is incomplete.
    fn close_outermost(&mut self, dict: B::Value, items: &[B::Value]) {
        let is = |builder: &B, at: usize, kind: Kind| items.get(at).is_some_and(|&item| builder.kind(item) == kind);
        let mut paired = 0;
        while paired + 1 < items.len() && is(&self.builder, paired, Kind::Text) {
            paired += 2;
        }
        let mut end = paired;
        while is(&self.builder, end, Kind::List) {
            end += 1;
        }
        if paired > 0 && is(&self.builder, paired - 1, Kind::List) {
            for nested in items[paired - 1..end].windows(2).rev() {
                let _ = self.builder.append(nested[0], &nested[1..], false);
            }
        }
        if paired > 0 {
            let _ = self.builder.set_items(dict, &items[..paired]);
        }
    }
}
