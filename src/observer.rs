//! Progress and cancellation. The core prints nothing: it tells an [`Observer`] what happens and asks whether to go on.

use std::ops::ControlFlow;

/// What a fit is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Event {
    /// The coreset is being drawn.
    Coreset {
        /// Rows to draw.
        size: usize,
    },
    /// The first centers are being chosen.
    Seeding {
        /// Which restart, from 0.
        run: usize,
        /// Centers to choose.
        clusters: usize,
    },
    /// An EM iteration has ended.
    Iteration {
        /// Which restart, from 0.
        run: usize,
        /// Which iteration, from 1.
        iteration: usize,
        /// The most there can be.
        max_iter: usize,
        /// The lower bound F (per unit of weight) after its E-step.
        lower_bound: f64,
        /// What the stopping rule compares with the tolerance; infinite in the first iteration.
        change: f64,
        /// The shared variance s2.
        variance: f64,
        /// Seconds since the EM loop of this run began.
        seconds: f64,
    },
}

/// Is told of each [`Event`] and may end the fit.
///
/// `event` is called between stages, on one thread; a [`ControlFlow::Break`] ends the fit, which returns what it has: the best
/// run so far, or, before there is any, what one iteration gives. `cancelled` is asked often and from many threads; `true`
/// makes the fit return [`Error::Cancelled`](crate::Error::Cancelled) at once. A closure that takes an [`Event`] is an observer
/// too.
pub trait Observer: Sync {
    /// Hears of an event; `Break` stops the fit and keeps its result.
    fn event(&self, _event: &Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    /// Whether to give up at once.
    fn cancelled(&self) -> bool {
        false
    }
}

/// An observer that hears nothing and never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}

/// A function that receives each event. It is never asked whether to cancel at once.
///
/// ```
/// use dgmm::{Dataset, Event, KMeans};
/// use std::ops::ControlFlow;
/// let values: Vec<f32> = (0..600).map(|i| (i % 7) as f32).collect();
/// let two_iterations = |event: &Event| match event {
///     Event::Iteration { iteration: 2.., .. } => ControlFlow::Break(()),
///     _ => ControlFlow::Continue(()),
/// };
/// let fit = KMeans::params(5).tol(0.0).fit_observed(&Dataset::from_slice(&values, 3)?, None, &two_iterations)?;
/// assert!(fit.report.iterations.len() <= 2);
/// # Ok::<(), dgmm::Error>(())
/// ```
impl<F: Fn(&Event) -> ControlFlow<()> + Sync> Observer for F {
    fn event(&self, event: &Event) -> ControlFlow<()> {
        self(event)
    }
}
