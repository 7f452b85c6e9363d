//! The one way from Python into the core and back.
//!
//! The core works on a thread of its own while the calling thread, detached from Python, waits for it. Every [`TICK`] the
//! caller attaches to look for Ctrl-C, and it delivers the core's events to the Python callback, so callbacks run where
//! the user called `fit`. A panic of the core arrives as a `RuntimeError`.
//!
//! Ctrl-C cancels the work. Only a fit that was asked to keep its model, and has one, is told to stop after the running
//! iteration instead; a second Ctrl-C cancels that too.

use crate::convert::{Names, event_fields, no_thread};
use dgmm::{Event, Observer, Result};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use std::any::Any;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long Ctrl-C may go unnoticed.
const TICK: Duration = Duration::from_millis(50);

/// An event, and where to say whether to go on.
type Message = (Event, Sender<ControlFlow<()>>);

/// What both ends of the line know.
#[derive(Default)]
struct Shared {
    /// Give up at once.
    cancelled: AtomicBool,
    /// End after the running iteration and return the model.
    stopping: AtomicBool,
    /// An iteration has ended: there is a model to return.
    has_model: AtomicBool,
}

impl Shared {
    /// Turns the first Ctrl-C of a fit that has a model into a wish to stop; says whether it did.
    fn stop_instead(&self) -> bool {
        self.has_model.load(Ordering::Relaxed) && !self.stopping.swap(true, Ordering::Relaxed)
    }
}

/// The core's end of the line.
struct Link<'a> {
    shared: &'a Shared,
    heard: bool,
    messages: Sender<Message>,
}

impl Observer for Link<'_> {
    fn event(&self, event: &Event) -> ControlFlow<()> {
        if matches!(event, Event::Iteration { .. }) {
            self.shared.has_model.store(true, Ordering::Relaxed);
        }
        if self.shared.stopping.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        if !self.heard {
            return ControlFlow::Continue(());
        }
        let (reply, answer) = channel();
        let sent = self.messages.send((*event, reply));
        // No answer means that the callback failed: the caller has set `cancelled`, or `stopping`.
        sent.ok().and_then(|()| answer.recv().ok()).unwrap_or(ControlFlow::Break(()))
    }

    fn cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Relaxed)
    }
}

/// Runs `work` detached from Python and returns what it made, or the exception that stopped it.
pub(crate) fn run<R: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    work: impl FnOnce(&dyn Observer) -> Result<R> + Send,
) -> PyResult<R> {
    run_named(py, callback, Names::Plain, work)
}

/// As [`run`], whose errors name arguments as `names` says.
pub(crate) fn run_named<R: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    names: Names,
    work: impl FnOnce(&dyn Observer) -> Result<R> + Send,
) -> PyResult<R> {
    Ok(run_keeping(py, callback, names, false, work)?.0)
}

/// As [`run_named`], but with `keep` Ctrl-C ends a fit that has a model; also says whether it did.
pub(crate) fn run_keeping<R: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    names: Names,
    keep: bool,
    work: impl FnOnce(&dyn Observer) -> Result<R> + Send,
) -> PyResult<(R, bool)> {
    let shared = Shared::default();
    let heard = callback.is_some();
    let builder = dgmm::thread_builder("dgmm").map_err(|error| names.raised(error))?;
    let (outcome, interruption) = py
        .detach(|| {
            std::thread::scope(|scope| {
                let (messages, inbox) = channel();
                let link = Link { shared: &shared, heard, messages };
                let worker = builder.spawn_scoped(scope, move || work(&link))?;
                let interruption = attend(&inbox, &shared, keep, callback);
                std::io::Result::Ok((worker.join(), interruption))
            })
        })
        .map_err(|error: std::io::Error| no_thread(&error))?;
    match (interruption, outcome) {
        (Some(exception), _) => Err(exception),
        (None, Ok(result)) => Ok((result.map_err(|error| names.raised(error))?, shared.stopping.into_inner())),
        (None, Err(panic)) => Err(PyRuntimeError::new_err(panic_message(&*panic))),
    }
}

/// Waits until the worker hangs up, looking after signals and events. Returns the exception that made it cancel.
fn attend(inbox: &Receiver<Message>, shared: &Shared, keep: bool, callback: Option<&Py<PyAny>>) -> Option<PyErr> {
    let mut failure = None;
    loop {
        let message = match inbox.recv_timeout(TICK) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return failure,
        };
        if failure.is_some() {
            continue;
        }
        // The worker waits until it is answered or `message` is dropped: not before it can see what follows from a failure.
        if let Err(exception) = Python::attach(|py| look_after(py, message.as_ref(), callback)) {
            let interrupt = Python::attach(|py| exception.is_instance_of::<PyKeyboardInterrupt>(py));
            if keep && interrupt && shared.stop_instead() {
                continue;
            }
            shared.cancelled.store(true, Ordering::Relaxed);
            failure = Some(exception);
        }
    }
}

fn look_after(py: Python<'_>, message: Option<&Message>, callback: Option<&Py<PyAny>>) -> PyResult<()> {
    // A no-op outside the main thread, where Python delivers no signals.
    py.check_signals()?;
    if let (Some((event, reply)), Some(callback)) = (message, callback) {
        let answer = deliver(py, event, callback)?;
        // The worker waits for this; it can only be gone if it panicked, which its join will tell.
        let _ = reply.send(answer);
    }
    Ok(())
}

fn deliver(py: Python<'_>, event: &Event, callback: &Py<PyAny>) -> PyResult<ControlFlow<()>> {
    let stop = match callback.bind(py).call1(event_fields(event)) {
        Ok(answer) => answer.is_truthy()?,
        Err(exception) if exception.is_instance_of::<PyStopIteration>(py) => true,
        Err(exception) => return Err(exception),
    };
    Ok(if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    format!("dgmm has a bug, please report it: {}", text.unwrap_or("unknown panic"))
}

/// Panics inside the core, for the test that says what becomes of it.
#[pyfunction(name = "_panic")]
pub(crate) fn panic(py: Python<'_>) -> PyResult<()> {
    run(py, None, |_| panic!("asked to"))
}
