//! Errors of a step, and answers that differ from the model.

use holdfast_core::Error;

/// A step of the workload failed or gave a wrong answer.
#[derive(Debug)]
pub enum StepError {
    /// The database returned an error.
    Store(Error),
    /// The database gave a wrong answer.
    Wrong(String),
}

/// The result of a step.
pub type StepResult = Result<(), StepError>;

impl StepError {
    /// Returns an answer that differs from the model's.
    pub fn wrong(what: String, store: &impl std::fmt::Debug, model: &impl std::fmt::Debug) -> Self {
        let (store, model) = (format!("{store:?}"), format!("{model:?}"));
        // Both may be whole stores: show them from shortly before the first difference.
        let same = store
            .bytes()
            .zip(model.bytes())
            .take_while(|(a, b)| a == b)
            .count()
            .saturating_sub(100);
        let part = |text: &str| {
            text.bytes()
                .skip(same)
                .take(400)
                .map(char::from)
                .collect::<String>()
        };
        Self::Wrong(format!(
            "{what}:\n  the store: … {}\n  the model: … {}",
            part(&store),
            part(&model)
        ))
    }

    /// Adds the store that gave a wrong answer.
    pub(crate) fn of(self, store: &str) -> Self {
        match self {
            Self::Wrong(what) => Self::Wrong(format!("{store}: {what}")),
            error => error,
        }
    }
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => write!(f, "{:?}: {error}", error.kind()),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}
