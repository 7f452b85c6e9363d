//! One EM iteration, in its parts: the E-step, the statistics it leaves, the M-step, the lower bound and when to stop.

pub(crate) mod convergence;
pub(crate) mod expectation;
pub(crate) mod groups;
pub(crate) mod lloyd;
pub(crate) mod maximization;
pub(crate) mod members;
pub(crate) mod objective;
pub(crate) mod statistics;
