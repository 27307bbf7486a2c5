//! Passes the log messages of Holdfast's crates on to Python's `logging`.
//!
//! A handler is the user's code, and it may call the database. So a message of a call is passed on
//! after the call, when the call holds no lock.

use log::{Level, Log, Metadata, Record};
use pyo3::prelude::*;
use pyo3_log::{Caching, Logger};
use std::cell::{Cell, RefCell};
use std::sync::Once;

/// What this thread's call has logged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// The thread is in no call.
    None,
    Silent,
    Logged,
}

thread_local! {
    /// Apart from the messages: nearly every call is silent, and this needs no destructor.
    static CALL: Cell<Call> = const { Cell::new(Call::None) };
    /// The messages of this thread's call.
    static OF_CALL: RefCell<Vec<Message>> = const { RefCell::new(Vec::new()) };
}

struct Message {
    level: Level,
    target: String,
    words: String,
    file: Option<String>,
    line: Option<u32>,
}

impl Message {
    fn new(record: &Record<'_>) -> Self {
        Self {
            level: record.level(),
            target: record.target().to_owned(),
            words: record.args().to_string(),
            file: record.file().map(str::to_owned),
            line: record.line(),
        }
    }

    fn log(&self) {
        log::logger().log(
            &Record::builder()
                .level(self.level)
                .target(&self.target)
                .file(self.file.as_deref())
                .line(self.line)
                .args(format_args!("{}", self.words))
                .build(),
        );
    }
}

/// Holds the messages of a call until the call has ended.
struct CallLogger(Logger);

impl Log for CallLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if CALL.get() != Call::None {
            CALL.set(Call::Logged);
            let message = Message::new(record);
            OF_CALL.with_borrow_mut(|messages| messages.push(message));
            return;
        }
        // A message that Python does not log must not wait for the GIL. Threads of a gateway may
        // still log while the interpreter ends.
        if self.0.enabled(record.metadata()) {
            Python::try_attach(|_| self.0.log(record));
        }
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// Sends the messages of Holdfast's crates to Python's `logging`. The loggers have the names of the
/// modules: `holdfast_core…`, `holdfast_host…`, `holdfast_gateway…`.
///
/// This is called when a database, reader or gateway is made and not at import: the state host's
/// process installs another logger and makes none of these objects. If a logger is installed
/// already, it stays, and gets the messages.
pub fn log_to_python(py: Python<'_>) -> PyResult<()> {
    static ONCE: Once = Once::new();
    let logger = Logger::new(py, Caching::LoggersAndLevels)?;
    ONCE.call_once(|| {
        if log::set_boxed_logger(Box::new(CallLogger(logger))).is_ok() {
            log::set_max_level(log::LevelFilter::Debug);
        }
    });
    Ok(())
}

/// Runs a call, and then passes its messages on.
///
/// `work` must not unwind.
pub fn with_messages_after<T>(work: impl FnOnce() -> T) -> T {
    if CALL.get() != Call::None {
        // The outer call passes the messages on.
        return work();
    }
    CALL.set(Call::Silent);
    let done = work();
    if CALL.replace(Call::None) == Call::Logged {
        OF_CALL.take().iter().for_each(Message::log);
    }
    done
}
