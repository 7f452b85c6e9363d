//! The report on a fit.

/// One EM iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Iteration {
    /// F, per unit of weight, after the E-step.
    pub lower_bound: f64,
    /// s2 after the M-step.
    pub variance: f64,
    /// Seconds since the EM loop began.
    pub seconds: f64,
    /// Distance evaluations of this iteration.
    pub distance_evals: u64,
    /// Number of rows in the iteration: those of a sample, or all fitted rows. F is comparable between iterations with
    /// the same rows.
    pub rows: u64,
    /// The round of [refinement](crate::Params::refine) it belongs to, counted from 1; 0 outside of rounds. The first
    /// iterations of a round may have a lower F, because clusters were moved; the round is kept only if F ends up
    /// higher.
    #[cfg_attr(feature = "serde", serde(default))]
    pub refine: usize,
}

/// Distance evaluations by stage, as the paper counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Evaluations {
    /// N if a coreset was drawn.
    pub coreset: u64,
    /// Choosing the initial centers, in the run that was kept.
    pub seeding: u64,
    /// The E-steps of the run that was kept.
    pub em: u64,
}

/// Seconds by stage; seeding and EM are summed over all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Seconds {
    /// Drawing the coreset.
    pub coreset: f64,
    /// Choosing the initial centers.
    pub seeding: f64,
    /// The EM loops.
    pub em: f64,
    /// Labeling rows that the EM loop did not see.
    pub labels: f64,
}

/// Report on a fit. Not converging is not an error; it is reported here.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Report {
    /// The iterations of the run that was kept.
    pub iterations: Vec<Iteration>,
    /// Whether the change of F fell to the tolerance.
    pub converged: bool,
    /// Whether the observer stopped it.
    pub stopped: bool,
    /// sum w d over the labels.
    pub inertia: f64,
    /// F of the returned model on the fitted rows (the coreset, if there is one).
    pub lower_bound: f64,
    /// Distance evaluations by stage.
    pub evaluations: Evaluations,
    /// Seconds by stage.
    pub seconds: Seconds,
    /// Number of clusters that are not the label of any row, or coincide with a cluster that is.
    pub empty_clusters: usize,
    /// Number of clusters whose mass exceeds [`max_size`](crate::Params::max_size), because no labels within the bound
    /// were found: a row may be heavier than the bound.
    pub oversized_clusters: usize,
    /// The run that was kept, counted from 0.
    pub run: usize,
}
