//! Named options: how to search, initialize and stop.

use crate::error::{Error, Result};
use std::str::FromStr;

/// Defines an option with named choices: parses them, and lists the allowed names in the error.
macro_rules! named {
    ($(#[$doc:meta])* $kind:ident, $argument:literal, { $($(#[$vdoc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub enum $kind {
            $($(#[$vdoc])* #[cfg_attr(feature = "serde", serde(rename = $name))] $variant),+
        }

        impl $kind {
            /// The name, as in Python.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl FromStr for $kind {
            type Err = Error;
            fn from_str(s: &str) -> Result<Self> {
                match s {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(Error::BadParameter {
                        name: $argument,
                        value: format!("{s:?}"),
                        allowed: concat!("one of", $(" '", $name, "'"),+).into(),
                    }),
                }
            }
        }
    };
}

named!(
    /// How the E-step of D-GMM is organized.
    Engine, "engine", {
        /// Whichever is fastest for the sizes at hand.
        Auto = "auto",
        /// As in the paper: every row draws its own R clusters.
        Pointwise = "pointwise",
        /// The rows with the same nearest cluster share their proposals.
        Grouped = "grouped",
    }
);
named!(
    /// What each row adds to S_ij if both i and j are in its K(n).
    SimilarityKind, "similarity", {
        /// 1.
        Cooccurrence = "cooccurrence",
        /// q_i q_j.
        Posterior = "posterior",
        /// exp(-(d_i + d_j)), as in the paper, shifted by the smallest exponent of the row of S.
        Kernel = "kernel",
        /// Nothing: proposals are uniform.
        Uniform = "uniform",
    }
);
named!(
    /// How the initial centers are chosen.
    Init, "init", {
        /// Two levels of AFK-MC2 from 200 clusters on; below that, greedy k-means++ for small data, otherwise AFK-MC2.
        Auto = "auto",
        /// AFK-MC2 (Bachem et al., 2016).
        AfkMc2 = "afk-mc2",
        /// Coarse cells first, AFK-MC2 inside them.
        Hierarchical = "hierarchical",
        /// k-means++ (Arthur and Vassilvitskii, 2007).
        KMeansPlusPlus = "k-means++",
        /// Distinct rows, at random.
        Random = "random",
    }
);
named!(
    /// How the distance of rows and centers is measured.
    Metric, "metric", {
        /// By their Euclidean distance.
        Euclidean = "euclidean",
        /// By the angle between them: rows and centers are unit vectors, and the clusters von Mises-Fisher distributions.
        Cosine = "cosine",
    }
);
named!(
    /// The quantity that is compared with `tol` to stop the fit.
    Stop, "stop", {
        /// The increase of F divided by D: half the relative change of s2, free of units.
        PerDim = "per_dim",
        /// The increase of F relative to |F|, as in the paper.
        Relative = "relative",
        /// The increase of F itself, as in scikit-learn's `GaussianMixture`.
        Absolute = "absolute",
    }
);
named!(
    /// Which labels the rows get.
    Labels, "labels", {
        /// Those of the fit's own search; if a coreset was fitted, those of exact search.
        Auto = "auto",
        /// The nearest centers, by exact search: O(N M D).
        Exact = "exact",
        /// Approximately the nearest centers, by an [`Index`](crate::Index), if a coreset was fitted; otherwise like
        /// `Auto`.
        Approximate = "approximate",
        /// No labels, which saves their time. The inertia is then that of the fitted rows.
        None = "none",
    }
);
named!(
    /// Which entries of the clusters' covariances are free. The others are 0.
    Covariance, "covariance_type", {
        /// One variance for all clusters and columns.
        Isotropic = "isotropic",
        /// A variance for each cluster.
        Spherical = "spherical",
        /// A variance for each column, the same in all clusters.
        TiedDiag = "tied_diag",
        /// A variance for each cluster and column.
        Diag = "diag",
    }
);
named!(
    /// The weights of the clusters.
    Weights, "weights", {
        /// All equal.
        Equal = "equal",
        /// Learned from the rows.
        Learned = "learned",
    }
);
