//! A builder that keeps everything, for tests.

use super::{BuildError, Builder, Kind, Limits, Machine, PickleError, Progress};

/// A decoded value. Containers that the pickle shares are copied on [`Tree::load`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`
    None,
    /// `True`, `False`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer from 2^63 on.
    UInt(u64),
    /// A float.
    Float(f64),
    /// A string; malformed UTF-8 is replaced.
    Text(String),
    /// A tuple or a list.
    List(Vec<Value>),
    /// Keys and values in order.
    Dict(Vec<(Value, Value)>),
    /// A container inside itself.
    Cycle,
}

/// Values by number; containers refer to other numbers.
#[derive(Default)]
pub struct Tree {
    nodes: Vec<Node>,
}

enum Node {
    Leaf(Value),
    List(Vec<usize>),
    Dict(Vec<usize>),
}

impl Tree {
    /// Decodes one pickle that lies in memory.
    pub fn load(bytes: &[u8]) -> Result<Value, PickleError> {
        Self::load_in_pieces(bytes, bytes.len().max(1))
    }

    /// Decodes one pickle that arrives in pieces of `piece` bytes.
    pub fn load_in_pieces(bytes: &[u8], piece: usize) -> Result<Value, PickleError> {
        let mut machine = Machine::new(Self::default(), Limits::default());
        let (mut start, mut end) = (0, 0);
        while end < bytes.len() {
            end = (end + piece).min(bytes.len());
            match machine.feed(&bytes[start..end])? {
                Progress::NeedMore(used) => start += used,
                Progress::Done(_) => {
                    let (tree, root) = machine.into_parts();
                    return Ok(tree.value(root.expect("a value at STOP"), &mut Vec::new()));
                }
            }
        }
        Err(PickleError::Truncated { offset: machine.offset() })
    }

    fn value(&self, at: usize, open: &mut Vec<usize>) -> Value {
        if open.contains(&at) {
            return Value::Cycle;
        }
        open.push(at);
        let value = match &self.nodes[at] {
            Node::Leaf(value) => value.clone(),
            Node::List(items) => Value::List(items.iter().map(|&item| self.value(item, open)).collect()),
            Node::Dict(pairs) => Value::Dict(
                pairs.chunks_exact(2).map(|pair| (self.value(pair[0], open), self.value(pair[1], open))).collect(),
            ),
        };
        open.pop();
        value
    }

    fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }
}

impl Builder for Tree {
    type Value = usize;
    type Kept = usize;
    type EntryKeys = Vec<usize>;
    fn keep(&mut self, value: usize) -> usize {
        value
    }
    fn recall(&self, kept: usize) -> usize {
        kept
    }

    fn none(&mut self) -> usize {
        self.add(Node::Leaf(Value::None))
    }
    fn bool(&mut self, value: bool) -> usize {
        self.add(Node::Leaf(Value::Bool(value)))
    }
    fn int(&mut self, value: i64) -> usize {
        self.add(Node::Leaf(Value::Int(value)))
    }
    fn uint(&mut self, value: u64) -> usize {
        self.add(Node::Leaf(Value::UInt(value)))
    }
    fn float(&mut self, value: f64) -> usize {
        self.add(Node::Leaf(Value::Float(value)))
    }
    fn text(&mut self, value: &[u8]) -> usize {
        self.add(Node::Leaf(Value::Text(String::from_utf8_lossy(value).into_owned())))
    }
    fn tuple(&mut self, items: &[usize]) -> usize {
        self.add(Node::List(items.to_vec()))
    }
    fn list(&mut self) -> usize {
        self.add(Node::List(Vec::new()))
    }
    fn append(&mut self, list: usize, items: &[usize], _whole: bool) -> Result<(), BuildError> {
        match &mut self.nodes[list] {
            Node::List(existing) => existing.extend_from_slice(items),
            _ => return Err(BuildError::NotAList),
        }
        Ok(())
    }
    fn dict(&mut self) -> usize {
        self.add(Node::Dict(Vec::new()))
    }
    fn set_items(&mut self, dict: usize, pairs: &[usize]) -> Result<(), BuildError> {
        match &mut self.nodes[dict] {
            Node::Dict(existing) => existing.extend_from_slice(pairs),
            _ => return Err(BuildError::NotADict),
        }
        Ok(())
    }
    fn entry_keys(&self, keys: &[usize]) -> Option<Vec<usize>> {
        Some(keys.to_vec())
    }
    fn set_entry(&mut self, dict: usize, keys: &Vec<usize>, values: &[usize]) -> Result<(), BuildError> {
        let pairs: Vec<usize> = keys.iter().zip(values).flat_map(|(&key, &value)| [key, value]).collect();
        self.set_items(dict, &pairs)
    }
    fn kind(&self, value: usize) -> Kind {
        match &self.nodes[value] {
            Node::List(_) => Kind::List,
            Node::Dict(_) => Kind::Dict,
            Node::Leaf(Value::Text(_)) => Kind::Text,
            Node::Leaf(_) => Kind::Other,
        }
    }
}
