//! What is broadcast before a step: the model, where its clusters propose to look, and how to take the posterior.

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

/// Which clusters each row is compared with: the only difference between k-means, exact GMM, vc-GMM and D-GMM. H is
/// `truncation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Search {
    /// All M clusters.
    Exhaustive {
        /// H: 1 for k-means, M for exact EM.
        truncation: usize,
    },
    /// vc-GMM: the neighbors of each member of K(n), and perhaps one cluster at random.
    Neighbors {
        /// H.
        truncation: usize,
        /// G, the neighbors of each cluster, including itself.
        neighbors: usize,
        /// Whether each row also tries one random cluster.
        random: bool,
    },
    /// D-GMM as in the paper: K(n) and R clusters that the row draws for itself.
    Pointwise {
        /// H.
        truncation: usize,
        /// R.
        proposals: usize,
        /// What S adds up.
        similarity: SimilarityKind,
    },
    /// D-GMM in which the rows with the same nearest cluster share their candidates.
    Grouped {
        /// H.
        truncation: usize,
        /// G, the length of a candidate list.
        candidates: usize,
    },
}

impl Search {
    /// H, the clusters that share each row's posterior.
    #[must_use]
    pub fn truncation(self) -> usize {
        match self {
            Self::Exhaustive { truncation }
            | Self::Neighbors { truncation, .. }
            | Self::Pointwise { truncation, .. }
            | Self::Grouped { truncation, .. } => truncation,
        }
    }

    /// Members that each row keeps from one step to the next: H, or 1 (the nearest) if the search compares it with all
    /// anyway.
    #[must_use]
    pub fn kept(self) -> usize {
        if matches!(self, Self::Exhaustive { .. }) { 1 } else { self.truncation() }
    }
}

/// How each row's posterior is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// All of it at the nearest cluster.
    Hard,
    /// By distance, over K(n).
    Soft,
}

/// What refinement asks of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Errand {
    /// Nothing: a step like any other.
    #[default]
    Nothing,
    /// Instead of a step: keep the sets K(n) as they are, and measure what clusters are worth.
    Probe,
    /// Before the step: each first cluster has been moved next to the second.
    Moved(Vec<(u32, u32)>),
    /// Before the step: take back the sets that were kept.
    Restore,
}

/// What a [`Trainer`](super::Trainer) broadcasts before each [`step`](super::step()). It can be
/// [sent](Self::to_bytes) to where the rows are.
#[derive(Debug, Clone)]
pub struct Round<T: Real> {
    pub(crate) model: Model<T>,
    pub(crate) search: Search,
    pub(crate) phase: Phase,
    /// Whether an M-step follows: else the sums over the rows are not needed.
    pub(crate) learn: bool,
    /// Which second moments that M-step needs.
    pub(crate) moments: Option<Lift>,
    /// Whether clusters without mass will be moved: else nobody needs to know which rows are the farthest.
    pub(crate) relocate: bool,
    pub(crate) seed: u64,
    pub(crate) iteration: u64,
    /// One over the mean weight of all rows: S does not change with the unit of the weights.
    pub(crate) unit: f64,
    /// What weights are counted in, where they are far from 1.
    pub(crate) weight_unit: f64,
    /// S, once something has been seen of it; for vc-GMM the neighbors of each cluster.
    pub(crate) similarity: Option<Arc<Similarity>>,
    /// Where rows without a K(n) look first.
    pub(crate) cells: Option<Arc<Cells<T>>>,
    /// An order of the clusters in which neighbors stand together (grouped search).
    pub(crate) sequence: Arc<Sequence>,
    /// Rows, by their number in all of the data, and the empty cluster that was moved onto each.
    pub(crate) adopted: Vec<(u64, u32)>,
    pub(crate) errand: Errand,
}

impl<T: Real> Round<T> {
    /// A copy, if there is room for it.
    pub fn copied(&self) -> Result<Self> {
        const MOVED: &str = "moved clusters";
        let errand = match &self.errand {
            Errand::Moved(pairs) => Errand::Moved(copied(pairs, MOVED)?),
            other => other.clone(),
        };
        Ok(Self {
            model: self.model.copied()?,
            similarity: self.similarity.clone(),
            cells: self.cells.clone(),
            sequence: self.sequence.clone(),
            adopted: copied(&self.adopted, MOVED)?,
            errand,
            ..*self
        })
    }

    /// The model of this round.
    pub fn model(&self) -> &Model<T> {
        &self.model
    }

    /// Which clusters rows look at.
    pub fn search(&self) -> Search {
        self.search
    }

    /// How posteriors are taken.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Which iteration this is, from 0.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }
}

impl<T: Real> Round<T> {
    /// Second moments that are wanted of each cluster.
    pub(crate) fn extra(&self) -> usize {
        self.moments.filter(|_| self.learn).map_or(0, |lift| lift.columns(self.model.dim()))
    }

    /// A round that learns, of rows that are seen once: `unit` is one over their mean weight.
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
            errand: Errand::Nothing,
        })
    }
}

#[cfg(test)]
impl<T: Real> Round<T> {
    /// A hard round that learns, of clusters without a similarity.
    pub(crate) fn plain(model: Model<T>, search: Search) -> Self {
        Self::once(model, search, Phase::Hard, 0, 1.0, None, Vec::new()).expect("there is room")
    }
}
