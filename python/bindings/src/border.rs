//! The only way from Python into the core and back.
//!
//! The core works on its own thread while the calling thread, detached from Python, waits for it. Every [`TICK`] the
//! caller attaches to check for Ctrl-C. It also delivers the core's events to the Python callback, so callbacks run in the
//! thread that called `fit`. A panic of the core becomes a `RuntimeError`.
//!
//! Ctrl-C cancels the work. A fit that was asked to keep its model, and has one, stops after the current iteration instead;
//! a second Ctrl-C cancels it.

use crate::convert::{Names, event_fields, no_thread};
use dgmm::{Event, Observer, Result};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use std::any::Any;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often the caller checks for Ctrl-C.
const TICK: Duration = Duration::from_millis(50);

/// An event, and the channel for the answer whether to continue.
type Message = (Event, Sender<ControlFlow<()>>);

/// State shared by the caller and the worker.
#[derive(Default)]
struct Shared {
    /// The work must stop at once.
    cancelled: AtomicBool,
    /// The fit must stop after the current iteration and return the model.
    stopping: AtomicBool,
    /// An iteration has ended, so there is a model to return.
    has_model: AtomicBool,
}

impl Shared {
    /// Turns the first Ctrl-C of a fit that has a model into a request to stop; returns whether it did.
    fn stop_instead(&self) -> bool {
        self.has_model.load(Ordering::Relaxed) && !self.stopping.swap(true, Ordering::Relaxed)
    }
}

/// The worker's end of the channel.
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

/// Runs `work` detached from Python and returns its result, or the exception that stopped it.
pub(crate) fn run<R: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    work: impl FnOnce(&dyn Observer) -> Result<R> + Send,
) -> PyResult<R> {
    run_named(py, callback, Names::Plain, work)
}

/// Like [`run`], with the names of arguments that errors use.
pub(crate) fn run_named<R: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    names: Names,
    work: impl FnOnce(&dyn Observer) -> Result<R> + Send,
) -> PyResult<R> {
    Ok(run_keeping(py, callback, names, false, work)?.0)
}

/// Like [`run_named`], but with `keep` Ctrl-C ends a fit that has a model; also returns whether it did.
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

/// Handles signals and events until the worker ends. Returns the exception that made it cancel the work.
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
        // The worker waits until it gets an answer or `message` is dropped; by then it can see the effect of a failure.
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
        // The worker waits for this answer; it can be gone only if it panicked, which joining it reveals.
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

/// Panics inside the core, for the test of how that reaches Python.
#[pyfunction(name = "_panic")]
pub(crate) fn panic(py: Python<'_>) -> PyResult<()> {
    run(py, None, |_| panic!("asked to"))
}
