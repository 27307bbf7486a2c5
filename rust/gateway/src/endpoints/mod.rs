//! What each route does.

mod answer;
mod asked;
mod lists;
mod metrics;
mod rows;
mod streams;

pub use answer::answer;
