//! Seeding: choosing the initial centers among the rows.
//!
//! | function | a row becomes the next center with probability | cost |
//! |---|---|---|
//! | [`random_rows`] | in proportion to its weight | O(N) |
//! | [`kmeans_plus_plus`] | in proportion to its weight times its squared distance to the centers so far | O(N M D) |
//! | [`afkmc2`] | about that, by a Markov chain of length m | O(N D + m M^2 D) |
//!
//! Each of them chooses M different rows of positive weight, and the same rows for every number of threads. Rows differ
//! by index: equal rows may both be chosen if the data has fewer than M distinct ones.
//!
//! ```
//! use dgmm::{Dataset, Run, seeding};
//! let x = ndarray::array![[0.0f32], [0.1], [9.0], [9.1]];
//! let seeds = seeding::kmeans_plus_plus(&Dataset::new(x.view())?, 2, 7, &Run::default())?;
//! assert!((seeds.centers[[0, 0]] - seeds.centers[[1, 0]]).abs() > 8.0);
//! # Ok::<(), dgmm::Error>(())
//! ```

mod afkmc2;
pub(crate) mod cells;
mod chosen;
pub(crate) mod hierarchical;
mod kmeans;
mod plusplus;
mod random;

pub use afkmc2::afkmc2;
pub use plusplus::kmeans_plus_plus;
pub use random::random_rows;

pub(crate) use afkmc2::check_chain_length;
pub(crate) use kmeans::{KMeansStart, k_means};
pub(crate) use {afkmc2::seed_afkmc2, plusplus::seed_plus_plus, random::seed_random};

use crate::data::{Dataset, gather};
use crate::error::{Error, Result};
use crate::kernel::Real;
use ndarray::Array2;

/// Rows chosen as the initial centers.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(bound(serialize = "T: Clone + serde::Serialize")))]
pub struct Seeds<T> {
    /// The centers, M x D, in the order in which they were chosen.
    pub centers: Array2<T>,
    /// The row index of each center.
    pub indices: Vec<usize>,
    /// Distance evaluations spent.
    pub evaluations: u64,
}

impl<T: Real> Seeds<T> {
    fn of_rows(data: &Dataset<'_, T>, indices: Vec<usize>, evaluations: u64) -> Result<Self> {
        let centers = Array2::from_shape_vec((indices.len(), data.dim()), gather(data, &indices)?);
        Ok(Self { centers: centers.expect("as many values as the shape says"), indices, evaluations })
    }
}

fn check_clusters<T: Real>(data: &Dataset<'_, T>, clusters: usize) -> Result<()> {
    if clusters == 0 {
        return Err(Error::BadParameter { name: "clusters", value: "0".into(), allowed: "at least 1".into() });
    }
    if clusters > data.positive_rows() {
        return Err(Error::TooManyClusters { clusters, rows: data.positive_rows() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Run;
    use ndarray::{Array1, Array2, array};
    use std::collections::HashSet;

    type Method = fn(&Dataset<'_, f64>, usize, u64, &Run<'_>) -> Result<Seeds<f64>>;
    const METHODS: [(&str, Method); 3] =
        [("afkmc2", |d, m, s, r| afkmc2(d, m, 5, s, r)), ("plusplus", kmeans_plus_plus), ("random", random_rows)];

    /// `rows` rows with three columns and values in 0..`values`.
    fn integers(rows: usize, values: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, 3), |(n, d)| ((n * 7919 + d * 104_729 + n * n * 13) % values) as f64)
    }

    fn distinct_points(seeds: &Seeds<f64>) -> usize {
        let bits = |r: ndarray::ArrayView1<f64>| r.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        seeds.centers.rows().into_iter().map(bits).collect::<HashSet<_>>().len()
    }

    #[test]
    fn indices_are_different_rows_of_positive_weight_and_centers_are_those_rows() {
        let x = integers(5000, 97);
        let w = Array1::from_shape_fn(5000, |n| (n % 3) as f64);
        let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        for (name, method) in METHODS {
            let seeds = method(&data, 100, 3, &Run::default()).unwrap();
            assert_eq!(seeds.indices.iter().collect::<HashSet<_>>().len(), 100, "{name}");
            for (i, &n) in seeds.indices.iter().enumerate() {
                assert!(w[n] > 0.0, "{name} chose row {n} of weight 0");
                assert_eq!(seeds.centers.row(i), x.row(n), "{name}");
            }
        }
    }

    #[test]
    fn threads_do_not_change_the_seeds() {
        let x = integers(9000, 1009);
        let data = Dataset::new(x.view()).unwrap();
        for (name, method) in METHODS {
            let seeds = |threads| method(&data, 150, 9, &Run { threads: Some(threads), ..Run::default() }).unwrap();
            let one = seeds(1);
            assert!([2, 3, 7].iter().all(|&t| seeds(t) == one), "{name}");
        }
    }

    #[test]
    fn weights_of_one_are_the_same_as_none() {
        let x = integers(3000, 101);
        let plain = Dataset::new(x.view()).unwrap();
        let ones = plain.clone().weighted(Array1::ones(3000).view()).unwrap();
        for (name, method) in METHODS {
            let seeds = |data| method(data, 20, 5, &Run::default()).unwrap();
            assert_eq!(seeds(&plain), seeds(&ones), "{name}");
        }
    }

    #[test]
    fn a_weight_of_two_is_the_same_as_the_row_twice() {
        let x = integers(300, 89);
        let w = Array1::from_shape_fn(300, |n| (n % 3) as f64);
        let twice: Vec<usize> = (0..300).flat_map(|n| std::iter::repeat_n(n, n % 3)).collect();
        let repeated = x.select(ndarray::Axis(0), &twice);
        let weighted = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        let repeated = Dataset::new(repeated.view()).unwrap();
        // The distributions over the points are the same, and so are the random numbers, so the points must be, too.
        for (name, method) in &METHODS[..2] {
            let centers = |data| method(data, 30, 6, &Run::default()).unwrap().centers;
            assert_eq!(centers(&weighted), centers(&repeated), "{name}");
        }
    }

    #[test]
    fn fewer_distinct_rows_than_clusters_still_give_that_many_different_rows() {
        for values in [1, 2, 3] {
            let x = integers(200, values);
            let data = Dataset::new(x.view()).unwrap();
            for (name, method) in METHODS {
                let seeds = method(&data, 150, 1, &Run::default()).unwrap();
                assert_eq!(seeds.indices.iter().collect::<HashSet<_>>().len(), 150, "{name} of {values} values");
            }
        }
    }

    #[test]
    fn every_row_may_be_a_center() {
        let x = Array2::from_shape_fn((40, 1), |(n, _)| n as f64);
        let data = Dataset::new(x.view()).unwrap();
        for (name, method) in METHODS {
            let mut indices = method(&data, 40, 2, &Run::default()).unwrap().indices;
            indices.sort_unstable();
            assert!(indices.into_iter().eq(0..40), "{name}");
        }
    }

    #[test]
    fn distance_methods_find_all_distinct_points_where_there_are_as_many_as_clusters() {
        let x = Array2::from_shape_fn((300, 1), |(n, _)| (n % 6) as f64);
        let data = Dataset::new(x.view()).unwrap();
        for (name, method) in &METHODS[..2] {
            assert_eq!(distinct_points(&method(&data, 6, 4, &Run::default()).unwrap()), 6, "{name}");
        }
    }

    #[test]
    fn impossible_numbers_of_clusters_and_bad_values_are_named() {
        let x = array![[0.0], [1.0], [2.0]];
        let data = Dataset::new(x.view()).unwrap().weighted(array![1.0, 0.0, 1.0].view()).unwrap();
        let holed = array![[0.0], [f64::NAN]];
        for (name, method) in METHODS {
            let fails = |data: &Dataset<'_, f64>, m| method(data, m, 0, &Run::default()).unwrap_err();
            assert_eq!(fails(&data, 3), Error::TooManyClusters { clusters: 3, rows: 2 }, "{name}");
            assert_eq!(fails(&data, 0).to_string(), "clusters is 0; it must be at least 1", "{name}");
            assert!(
                matches!(fails(&Dataset::new(holed.view()).unwrap(), 1), Error::NotFinite { row: 1, .. }),
                "{name}"
            );
        }
        let e = afkmc2(&data, 2, 0, 0, &Run::default()).unwrap_err();
        assert_eq!(e.to_string(), "chain_length is 0; it must be at least 1");
    }

    #[test]
    fn a_cancelled_observer_stops_every_method() {
        struct Stop;
        impl crate::observer::Observer for Stop {
            fn cancelled(&self) -> bool {
                true
            }
        }
        let x = integers(100, 10);
        let data = Dataset::new(x.view()).unwrap();
        for (name, method) in METHODS {
            assert_eq!(
                method(&data, 5, 0, &Run { threads: Some(1), observer: &Stop }),
                Err(Error::Cancelled),
                "{name}"
            );
        }
    }

    #[test]
    fn a_seed_keeps_its_meaning() {
        let x = integers(1000, 50);
        let data = Dataset::new(x.view()).unwrap();
        let chosen = METHODS.map(|(_, method)| method(&data, 8, 2024, &Run::default()).unwrap().indices);
        let frozen = [
            [305, 992, 399, 509, 175, 629, 868, 672],
            [305, 726, 388, 150, 677, 628, 315, 739],
            [273, 961, 978, 395, 503, 196, 668, 529],
        ];
        assert_eq!(chosen, frozen);
    }
}
