//! What a trainer starts with: its settings, and the initial model.

use crate::kernel::Real;
use crate::model::Model;
use crate::options::Stop;
use crate::step::cells::Cells;
use crate::step::round::Search;
use crate::step::shape::ShapeRule;

/// Training settings: the part of a plan that the trainer needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Training {
    pub search: Search,
    /// Whether rows belong to their nearest cluster only, always (k-means) ...
    pub hard: bool,
    /// ... or in this many initial iterations, which is cheaper. F still increases when the soft posterior takes over,
    /// because that is the best one for given centers.
    pub hard_iterations: u64,
    /// Step length: how far centers move, relative to the distance to the mean of their rows.
    pub step_length: f64,
    pub stop: Stop,
    pub tol: f64,
    pub max_iter: usize,
    /// Maximum number of refinement rounds among the iterations.
    pub refine: usize,
    /// Whether clusters without mass are moved onto rows far from their clusters.
    pub relocate: bool,
    /// The smallest s2 allowed. Constant data and clusters of single rows would otherwise have s2 = 0 and infinite F.
    pub variance_floor: f64,
    /// How variances and weights are learned, if clusters differ in them.
    pub shape: Option<ShapeRule>,
}

/// The initial state of training.
#[derive(Debug, Clone)]
pub(crate) struct Start<T: Real> {
    pub model: Model<T>,
    /// First candidates of the rows; if `None`, the first K(n) is drawn at random.
    pub cells: Option<Cells<T>>,
    /// All clusters, in an order that puts neighbors next to each other (grouped search).
    pub sequence: Vec<u32>,
    /// Distance evaluations spent.
    pub evaluations: u64,
}
