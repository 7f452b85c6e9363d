//! Parts of the crate's inside, for its own benches. **Not part of the API**: it may change in any version.
//!
//! [`Dense`] is the blocked kernel, [`Stepper`] an EM loop that is taken one half-step at a time.

use crate::begin::begin;
use crate::data::Dataset;
use crate::em::expectation::{Expectation, Task, take_posterior};
use crate::em::maximization::maximize;
use crate::em::members::{ByCluster, Sets};
use crate::em::statistics::{ShardRows, Statistics};
use crate::error::Result;
use crate::kernel::{self, Centers, RowBlock};
use crate::model::Model;
use crate::observer::Silent;
use crate::parallel::with_threads;
use crate::params::{Params, Plan, SimilarityKind};
use crate::real::Real;
use crate::search::State;
use crate::similarity::Pairs;
use ndarray::ArrayView2;

/// The blocked kernel: a block of rows against all centers, on the calling thread.
#[derive(Debug)]
pub struct Dense<'a, T: Real> {
    block: RowBlock<T>,
    centers: Centers<'a, T>,
    dim: usize,
}

impl<'a, T: Real> Dense<'a, T> {
    /// For these centers, M x `dim`.
    pub fn new(centers: &'a [T], dim: usize) -> Self {
        Self { block: RowBlock::default(), centers: Centers::new(centers, dim), dim }
    }

    /// Rows that a block of this width has in a fit.
    pub fn block_rows(&self) -> usize {
        kernel::block_rows::<T>(self.dim)
    }

    /// Packs a block of rows.
    pub fn load(&mut self, rows: &[T]) {
        self.block.load(rows, self.dim, None);
    }

    /// The `h` nearest centers of each row of the block: rows x h ids and distances (OUT).
    pub fn nearest(&self, h: usize, ids: &mut [u32], distances: &mut [T]) {
        self.block.nearest(&self.centers, h, ids, distances);
    }
}

/// |row - center|^2 for the centers `ids`, one by one, into `out` (OUT).
pub fn gathered_distances<T: Real>(row: &[T], centers: &[T], ids: &[u32], out: &mut [T]) {
    T::gathered_distances(row, centers, ids, out);
}

/// An EM loop in half-steps, from given centers. Nothing stops it and no cluster is moved.
pub struct Stepper<'a, T: Real> {
    task: Task<'a, T>,
    plan: Plan,
    model: Model<T>,
    engine: Box<dyn Expectation<T>>,
    state: State<T>,
    iteration: u64,
}

impl<'a, T: Real> Stepper<'a, T> {
    /// Checks the parameters and begins with the data's variance and these centers, or where a fit would begin.
    pub fn new(params: &Params, data: &'a Dataset<'a, T>, start: Option<ArrayView2<'_, T>>) -> Result<Self> {
        let plan = params.check(data)?;
        let seed = plan.seed();
        let (moments, begin) = with_threads(plan.threads(), || {
            let moments = data.moments(&Silent)?;
            let begin = begin(data, &moments, &plan, start, seed, &Silent)?;
            Ok((moments, begin))
        })??;
        let model = Model::from_origin(begin.centers.view(), moments.origin(), moments.variance());
        let task = Task { data, hard: plan.hard(), seed, observer: &Silent };
        Ok(Self { task, plan, model, engine: begin.step, state: begin.state, iteration: 0 })
    }

    /// An E-step, which sums up and learns S with `learn`, and what `then` makes of it.
    fn step<R: Send>(&mut self, learn: bool, then: impl FnOnce(&mut Model<T>, Statistics) -> R + Send) -> Result<R> {
        let Self { task, plan, model, engine, state, iteration } = self;
        *iteration += 1;
        with_threads(plan.threads(), || {
            let statistics = engine.step(task, model, state, *iteration, learn)?;
            Ok(then(model, statistics))
        })?
    }

    /// An E-step alone: candidates, K(n) and q(n). Returns its distance evaluations.
    pub fn expectation(&mut self) -> Result<u64> {
        self.step(false, |_, statistics| statistics.evaluations)
    }

    /// A whole iteration: E-step, sums, the rows of S, M-step.
    pub fn iterate(&mut self) -> Result<()> {
        self.step(true, |model, statistics| {
            maximize(model, &statistics, f64::MIN_POSITIVE, 1.0);
        })
    }

    /// The truncated sets of the last step, for [`maximization`](Self::maximization). Needs a search that remembers
    /// them, or H = 1.
    pub fn sets(&self) -> KeptSets<T> {
        let (data, h) = (self.task.data, self.state.kept);
        let mut sets = Sets::default();
        sets.resize(data.rows(), h);
        sets.members.copy_from_slice(&self.state.members);
        let mut local = Vec::new();
        for n in 0..data.rows() {
            let set = n * h..(n + 1) * h;
            let row = data.local(n, self.model.origin(), &mut local);
            let d = &mut sets.distances[set.clone()];
            T::gathered_distances(row, self.model.local_centers(), &sets.members[set.clone()], d);
            take_posterior(d, self.model.variance(), &mut sets.posterior[set]);
        }
        KeptSets(sets)
    }

    /// An M-step apart from its E-step, given the sets: sums, centers, s2, and the rows of S with their alias tables where
    /// `pairs` of members make them. The model stays as it is, so that it can be timed again. Returns the new s2.
    pub fn maximization(&mut self, sets: &KeptSets<T>, pairs: Option<SimilarityKind>) -> Result<f64> {
        let Self { task, plan, model, .. } = self;
        let (data, sets, clusters) = (task.data, &sets.0, model.clusters());
        with_threads(plan.threads(), || {
            let mut statistics = Statistics::new(clusters, data.dim(), data.total_weight());
            let shard = ShardRows { data, origin: model.origin(), rows: 0..data.rows() };
            statistics.accumulate(&shard, sets, &Silent)?;
            if let Some(pairs) = pairs.and_then(Pairs::of) {
                let values = if pairs == Pairs::Kernel { &sets.distances } else { &sets.posterior };
                let by_cluster = ByCluster::new(&sets.members, clusters, |_| true);
                let rows = pairs.similarity(sets.h, &sets.members, values, |n| data.weight(n), &by_cluster, &Silent);
                std::hint::black_box(rows.alias_rows());
            }
            statistics.weighted_distance = data.total_weight();
            let mut next = model.clone();
            maximize(&mut next, &statistics, f64::MIN_POSITIVE, 1.0);
            Ok(next.variance())
        })?
    }

    /// The model as it is.
    pub fn model(&self) -> &Model<T> {
        &self.model
    }
}

/// K(n), d(n) and q(n) of all rows. See [`Stepper::sets`].
#[derive(Debug)]
pub struct KeptSets<T>(Sets<T>);
