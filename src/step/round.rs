//! What is broadcast before a step: the model, its candidates, and the kind of posterior.

use super::cells::Cells;
use super::groups::Sequence;
use super::similarity::Similarity;
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::copied;
use crate::model::Model;
use crate::model::score::Lift;
use crate::options::SimilarityKind;
use std::sync::Arc;

/// The clusters with which each row is compared: the only difference between k-means, exact GMM, vc-GMM and D-GMM. H is
/// `truncation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Search {
    /// All M clusters.
    Exhaustive {
        /// H: 1 for k-means, M for exact EM.
        truncation: usize,
    },
    /// vc-GMM: the neighbors of each member of K(n), optionally with one random cluster.
    Neighbors {
        /// H.
        truncation: usize,
        /// G, the number of neighbors of each cluster, including itself.
        neighbors: usize,
        /// Whether each row is also compared with one random cluster.
        random: bool,
    },
    /// D-GMM as in the paper: K(n) and R clusters that each row draws itself.
    Pointwise {
        /// H.
        truncation: usize,
        /// R.
        proposals: usize,
        /// How S weights pairs of clusters.
        similarity: SimilarityKind,
    },
    /// D-GMM with candidates shared by the rows that have the same nearest cluster.
    Grouped {
        /// H.
        truncation: usize,
        /// G, the length of a candidate list.
        candidates: usize,
    },
}

impl Search {
    /// H, the number of clusters that share each row's posterior.
    #[must_use]
    pub fn truncation(self) -> usize {
        match self {
            Self::Exhaustive { truncation }
            | Self::Neighbors { truncation, .. }
            | Self::Pointwise { truncation, .. }
            | Self::Grouped { truncation, .. } => truncation,
        }
    }

    /// Number of members that each row keeps from one step to the next: H, or 1 (the nearest) if each row is compared
    /// with all clusters anyway.
    #[must_use]
    pub fn kept(self) -> usize {
        if matches!(self, Self::Exhaustive { .. }) { 1 } else { self.truncation() }
    }
}

/// The kind of posterior.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Each row belongs to its nearest cluster only.
    Hard,
    /// By distance, over K(n).
    Soft,
}

/// What refinement asks of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Request {
    /// Nothing: an ordinary step.
    #[default]
    Nothing,
    /// Instead of a step: save the sets K(n) and measure what clusters are worth.
    Probe,
    /// Before the step: follow the clusters that were moved, the first of each pair next to the second.
    Moved(Vec<(u32, u32)>),
    /// Before the step: restore the saved sets.
    Restore,
}

/// What a [`Trainer`](super::Trainer) broadcasts before each [`step`](super::step()). It can be [sent](Self::to_bytes)
/// to where the rows are.
#[derive(Debug, Clone)]
pub struct Round<T: Real> {
    pub(crate) model: Model<T>,
    pub(crate) search: Search,
    pub(crate) phase: Phase,
    /// Whether an M-step follows; otherwise the sums over the rows are not needed.
    pub(crate) learn: bool,
    /// The second moments that the M-step needs.
    pub(crate) moments: Option<Lift>,
    /// Whether clusters without mass will be relocated; otherwise the farthest rows are not needed.
    pub(crate) relocate: bool,
    pub(crate) seed: u64,
    pub(crate) iteration: u64,
    /// One over the mean weight of all rows, so that S does not depend on the unit of the weights.
    pub(crate) unit: f64,
    /// The unit of weights, if they are far from 1.
    pub(crate) weight_unit: f64,
    /// S, once counts are available; for vc-GMM the neighbors of each cluster.
    pub(crate) similarity: Option<Arc<Similarity>>,
    /// Where rows without a K(n) find their first candidates.
    pub(crate) cells: Option<Arc<Cells<T>>>,
    /// An order of the clusters that puts neighbors next to each other (grouped search).
    pub(crate) sequence: Arc<Sequence>,
    /// Rows, by their number in all of the data, and the empty cluster that was moved onto each.
    pub(crate) adopted: Vec<(u64, u32)>,
    pub(crate) request: Request,
}

impl<T: Real> Round<T> {
    /// A copy, or an error if memory runs out.
    pub fn copied(&self) -> Result<Self> {
        const MOVED: &str = "moved clusters";
        let request = match &self.request {
            Request::Moved(pairs) => Request::Moved(copied(pairs, MOVED)?),
            other => other.clone(),
        };
        Ok(Self {
            model: self.model.copied()?,
            similarity: self.similarity.clone(),
            cells: self.cells.clone(),
            sequence: self.sequence.clone(),
            adopted: copied(&self.adopted, MOVED)?,
            request,
            ..*self
        })
    }

    /// The model of this round.
    pub fn model(&self) -> &Model<T> {
        &self.model
    }

    /// Which clusters rows are compared with.
    pub fn search(&self) -> Search {
        self.search
    }

    /// The kind of posterior.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The iteration, counted from 0.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }
}

impl<T: Real> Round<T> {
    /// Number of second moments per cluster.
    pub(crate) fn extra(&self) -> usize {
        self.moments.filter(|_| self.learn).map_or(0, |lift| lift.columns(self.model.dim()))
    }

    /// A round that learns from rows seen once; `unit` is one over their mean weight.
    pub(crate) fn once(
        model: Model<T>,
        search: Search,
        phase: Phase,
        seed: u64,
        unit: f64,
        cells: Option<Arc<Cells<T>>>,
        sequence: Vec<u32>,
    ) -> Result<Self> {
        Ok(Self {
            model,
            search,
            phase,
            learn: true,
            moments: None,
            relocate: true,
            seed,
            iteration: 0,
            unit,
            weight_unit: 1.0,
            similarity: None,
            cells,
            sequence: Arc::new(Sequence::of(sequence)?),
            adopted: Vec::new(),
            request: Request::Nothing,
        })
    }
}

#[cfg(test)]
impl<T: Real> Round<T> {
    /// A hard round that learns, without a similarity.
    pub(crate) fn plain(model: Model<T>, search: Search) -> Self {
        Self::once(model, search, Phase::Hard, 0, 1.0, None, Vec::new()).expect("there is room")
    }
}
