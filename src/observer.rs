//! Progress and cancellation. The core prints nothing: it reports events to an [`Observer`] and asks it whether to
//! continue.

use std::ops::ControlFlow;

/// What a fit is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Event {
    /// The coreset is being drawn.
    Coreset {
        /// Number of rows to draw.
        size: usize,
    },
    /// The initial centers are being chosen.
    Seeding {
        /// The run, counted from 0.
        run: usize,
        /// Number of centers to choose.
        clusters: usize,
    },
    /// An EM iteration ended.
    Iteration {
        /// The run, counted from 0.
        run: usize,
        /// The iteration, counted from 1.
        iteration: usize,
        /// The maximum number of iterations.
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

/// Receives each [`Event`] and may end the fit.
///
/// `event` is called between stages, on one thread; [`ControlFlow::Break`] ends the fit, which returns the best run so
/// far or, if there is none yet, a run of one iteration. `cancelled` is called often and from many threads; `true`
/// makes the fit return [`Error::Cancelled`](crate::Error::Cancelled) at once. A closure that takes an [`Event`] is an
/// observer, too.
pub trait Observer: Sync {
    /// Receives an event; `Break` stops the fit and keeps its result.
    fn event(&self, _event: &Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    /// Whether to cancel at once.
    fn cancelled(&self) -> bool {
        false
    }
}

/// An observer that ignores events and never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}

/// A function that receives each event. It cannot cancel at once.
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
