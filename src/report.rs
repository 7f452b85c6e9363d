//! What a fit says about itself.

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
    /// Rows that it saw: those of a sample, or all that are fitted. F is comparable between iterations that saw the same.
    pub rows: u64,
    /// Which round of [refinement](crate::Params::refine) it belongs to, from 1; 0 before. The first iterations of a round may have a
    /// lower F, because clusters were moved; the round is kept only if F ends up higher.
    #[cfg_attr(feature = "serde", serde(default))]
    pub refine: usize,
}

/// Distance evaluations by stage, as the paper counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Evaluations {
    /// N, where a coreset was drawn.
    pub coreset: u64,
    /// Choosing the first centers, of the run that was kept.
    pub seeding: u64,
    /// The E-steps of the run that was kept.
    pub em: u64,
}

/// Seconds by stage; seeding and EM of all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Seconds {
    /// Drawing the coreset.
    pub coreset: f64,
    /// Choosing the first centers.
    pub seeding: f64,
    /// The EM loops.
    pub em: f64,
    /// Labeling rows that the EM loop did not see.
    pub labels: f64,
}

/// How a fit went. A fit that does not converge is not an error: it says so here.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Report {
    /// The iterations of the run that was kept.
    pub iterations: Vec<Iteration>,
    /// Whether the change of F fell to the tolerance.
    pub converged: bool,
    /// Whether the observer ended it.
    pub stopped: bool,
    /// sum w d over the labels.
    pub inertia: f64,
    /// F of the returned model, on the rows that were fitted (the coreset, where there is one).
    pub lower_bound: f64,
    /// Distance evaluations by stage.
    pub evaluations: Evaluations,
    /// Seconds by stage.
    pub seconds: Seconds,
    /// Clusters that are not the label of any row, or sit exactly where one that is sits.
    pub empty_clusters: usize,
    /// Clusters whose mass is above [`max_size`](crate::Params::max_size), because no labels that respect it were found: a row may
    /// be heavier than the bound.
    pub oversized_clusters: usize,
    /// Which of the runs was kept, from 0.
    pub run: usize,
}
