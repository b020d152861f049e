//! What texts of a snapshot are for.

/// What a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The action of a trace entry that has no meaning here.
    Action,
    /// `compile_context`
    Context,
    /// `user_metadata`
    Metadata,
    /// The allocator's remark, a category, or the operation of a node of `torch.fx`: mostly torch's own words.
    Internal,
    /// The name of an annotation.
    Annotation,
    /// Anything else that the program says.
    Text,
}
