//! Trace entries: a file has millions of them, nearly all with the same keys.

use super::builder::{SnapshotBuilder, count_unknown, row_number};
use super::event_keys::EventKeys;
use super::shape::Shape;
use super::word::Word;
use crate::pickle::BuildError;
use crate::snapshot::events::{Action, Event};
use crate::snapshot::ids::StrId;
use crate::snapshot::keys;

impl SnapshotBuilder {
    /// Makes a new trace entry of these `values`, one for each of `keys`.
    #[inline]
    pub(super) fn new_event(&mut self, keys: &EventKeys, values: &[Word]) -> Result<u32, BuildError> {
        // Filled in place: a copy of an event just written stalls the processor.
        let mut event = Event::default();
        for (&key, &value) in keys.ids.iter().zip(values) {
            self.event_field(&mut event, key, value)?;
        }
        self.schema.event.extend(keys.set);
        self.events.push(&event);
        row_number(self.events.len() - 1, "trace entries")
    }

    /// Sets what `pairs` say in `event`.
    pub(super) fn event(&mut self, event: &mut Event, pairs: &[Word]) -> Result<(), BuildError> {
        for pair in pairs.chunks_exact(2) {
            let Some(key) = pair[0].text() else { continue };
            self.schema.event.insert(key);
            self.event_field(event, key, pair[1])?;
        }
        Ok(())
    }

    #[inline(always)]
    fn event_field(&mut self, event: &mut Event, key: StrId, value: Word) -> Result<(), BuildError> {
        match key.0 {
            keys::ACTION => {
                let id = self.text_id(value);
                match keys::action(id) {
                    Some(action) => (event.action, event.other) = (action, StrId::default()),
                    None => {
                        count_unknown(&mut self.unknown_actions, id);
                        (event.action, event.other) = (Action::Other, id);
                    }
                }
            }
            keys::ADDR | keys::DEVICE_FREE => event.addr = self.pointer(value),
            keys::SIZE => event.size = self.bytes(value),
            keys::STREAM => {
                let pointer = self.pointer(value);
                event.stream = self.stream(pointer)?;
            }
            keys::FRAMES => event.stack = self.stack(value)?,
            keys::TIME_US => event.time_us = self.pointer(value),
            keys::COMPILE_CONTEXT => event.compile_context = self.text_id(value),
            keys::USER_METADATA => event.user_metadata = self.text_id(value),
            keys::POOL_ID => event.pool = self.pool_of(value)?,
            keys::INTERNAL_METADATA => event.internal_metadata = self.text_id(value),
            keys::FORWARD_FRAMES => event.forward = self.stack(value)?,
            keys::CPP_FRAMES => {
                // Torch 2.0 keeps C++ frames apart; they stand in where there are no Python frames.
                let stack = self.stack(value)?;
                if !event.stack.has_frames() {
                    event.stack = stack;
                }
            }
            keys::CATEGORY => event.category = self.text_id(value),
            // The trace's own device is its place in the list.
            keys::DEVICE => {}
            _ => self.unknown_key(Shape::Event, key),
        }
        Ok(())
    }
}
