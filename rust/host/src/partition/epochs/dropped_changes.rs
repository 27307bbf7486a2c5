//! Changes that are no longer needed.

/// Changes that are deleted once the lock of their partition is released: files of much that was
/// spilled take a while, and sessions and readers would wait.
#[derive(Default)]
pub struct DroppedChanges(Vec<Box<dyn Send>>);

impl DroppedChanges {
    /// Adds a holder of changes.
    pub fn add(&mut self, changes: impl Send + 'static) {
        self.0.push(Box::new(changes));
    }
}
