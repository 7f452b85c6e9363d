//! What a plan implies for the steps that carry it out.

use super::{Fitted, Plan, WARM_UP};
use crate::options::{Covariance, Weights};
use crate::step::{Sampling, ShapeRule, Training};

impl Plan {
    /// Number of rows that the EM loop sees.
    #[must_use]
    pub fn rows_fitted(&self) -> usize {
        match self.fitted {
            Fitted::All => self.rows,
            Fitted::Coreset(size) => size,
        }
    }

    /// The sample that the [`Summary`](crate::step::Summary) of each shard must hold.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        // Without samples the seeding sees all rows.
        let rows = self.rows_fitted();
        let size = self.samples.last().copied().unwrap_or(rows);
        Sampling { size, seed: self.seed, total_rows: Some(rows as u64), metric: self.metric }
    }

    /// Whether there is more than one shard.
    #[must_use]
    pub fn is_sharded(&self) -> bool {
        self.shard_rows < self.rows_fitted()
    }

    /// The settings of the trainer.
    pub(crate) fn training(&self, variance_floor: f64) -> Training {
        Training {
            search: self.search,
            hard: self.hard,
            hard_iterations: self.hard_iterations,
            step_length: self.step_length,
            stop: self.stop,
            tol: self.tol,
            max_iter: self.max_iter,
            refine: self.refine,
            relocate: true,
            variance_floor,
            shape: self.shape_rule(),
        }
    }

    /// How variances and weights are learned; `None` if they are those of D-GMM.
    pub(crate) fn shape_rule(&self) -> Option<ShapeRule> {
        let Self { covariance, reg_covar, .. } = *self;
        let weighted = self.weights == Weights::Learned;
        let alike = covariance == Covariance::Isotropic && !weighted;
        (!alike).then_some(ShapeRule { covariance, weighted, reg_covar, warm_up: WARM_UP })
    }
}
