//! In small data, neither the order of the rows nor the representation of their weights changes a bit.

use dgmm::{Dataset, Dgmm, ExactGmm, Fit, KMeans, VcGmm};
use ndarray::{Array1, Array2, Axis, concatenate};

const ROWS: usize = 300;

fn rows() -> (Array2<f64>, Vec<usize>) {
    let x =
        Array2::from_shape_fn((ROWS, 3), |(n, d)| ((n * 37 + d * 11) % 101) as f64 + ((n * (d + 2)) % 13) as f64 * 0.1);
    let times = (0..ROWS).map(|n| (n * 7) % 4).collect();
    (x, times)
}

fn fits(x: &Array2<f64>, w: Option<&Array1<f64>>) -> Vec<Fit<f64>> {
    let data = Dataset::new(x.view()).unwrap();
    let data = w.map_or(data.clone(), |w| data.weighted(w.view()).unwrap());
    let systems = [Dgmm::params(20), VcGmm::params(20), ExactGmm::params(20), KMeans::params(20)];
    systems.map(|p| p.seed(5).max_iter(6).n_init(2usize).fit(&data).unwrap()).into()
}

#[test]
fn a_row_twice_is_weight_two_and_weight_zero_is_no_row_in_any_order() {
    let (x, times) = rows();
    let repeats: Vec<usize> = (0..ROWS).flat_map(|n| vec![n; times[n]]).collect();
    let repeated = fits(&x.select(Axis(0), &repeats), None);
    let shuffled: Vec<usize> = (0..ROWS).map(|n| (n * 77 + 5) % ROWS).collect();
    let weights = shuffled.iter().map(|&n| times[n] as f64).collect();
    let weighted = fits(&x.select(Axis(0), &shuffled), Some(&weights));
    for (a, b) in repeated.iter().zip(&weighted) {
        assert_eq!(a.model.centers(), b.model.centers());
        assert_eq!(a.report.lower_bound, b.report.lower_bound);
        let first = |n: usize| repeats.iter().position(|&m| m == n);
        for (place, &n) in shuffled.iter().enumerate() {
            assert!(first(n).is_none_or(|other| a.labels[other] == b.labels[place]));
        }
    }
}

#[test]
fn equal_rows_add_their_weights_in_any_order() {
    let (x, _) = rows();
    let x = concatenate![Axis(0), x, x, x];
    let weights = |of: fn(usize) -> f64| -> Array1<f64> { (0..3 * ROWS).map(|n| of(n / ROWS)).collect() };
    let (up, down) =
        (fits(&x, Some(&weights(|k| [0.1, 0.2, 0.3][k]))), fits(&x, Some(&weights(|k| [0.3, 0.2, 0.1][k]))));
    for (a, b) in up.iter().zip(&down) {
        assert_eq!(a.model.centers(), b.model.centers());
    }
}

#[test]
fn rows_of_weight_zero_get_the_label_of_the_nearest_center() {
    let (x, times) = rows();
    let weights: Array1<f64> = times.iter().map(|&t| t as f64).collect();
    for fit in fits(&x, Some(&weights)) {
        let nearest = fit.model.predict(&Dataset::new(x.view()).unwrap(), &Default::default()).unwrap();
        assert!((0..ROWS).filter(|&n| times[n] == 0).all(|n| fit.labels[n] == nearest[n]));
    }
}

#[test]
fn a_non_finite_value_is_named_with_its_position() {
    let (x, _) = rows();
    let mut bad = concatenate![Axis(0), x, x];
    bad[[417, 1]] = f64::NAN;
    let error = KMeans::params(3).fit(&Dataset::new(bad.view()).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "data[417, 1] is NaN; every value must be finite");
}
