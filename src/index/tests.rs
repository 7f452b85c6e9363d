use super::*;
use crate::observer::Observer;
use crate::rng::{Stage, stream};

/// `n` rows of `dim` columns around 100 points, or only around 0; equal `which` gives equal rows.
fn rows<T: Real>(n: usize, dim: usize, clustered: bool, which: u64) -> Array2<T> {
    let mut rng = stream(3, Stage::Sample, 0, 0);
    let places = Array2::from_shape_fn((100, dim), |_| if clustered { 4.0 * rng.normal() } else { 0.0 });
    let mut rng = stream(3, Stage::Sample, which, 1);
    let mut x = Array2::from_elem((n, dim), T::ZERO);
    for mut row in x.rows_mut() {
        let place = rng.below(100);
        row.iter_mut().enumerate().for_each(|(d, x)| *x = T::from_f64(places[[place, d]] + rng.normal()));
    }
    x
}

fn model<T: Real>(clusters: usize, dim: usize, clustered: bool) -> Model<T> {
    Model::new(rows(clusters, dim, clustered, 1).view(), 1.0).unwrap()
}

fn tuned<T: Real>(model: &Model<T>, data: &Dataset<'_, T>) -> Index<T> {
    let mut index = model.index(&Run::default()).unwrap();
    index.tune(data, 0.95, &Run::default()).unwrap();
    assert!(index.is_exact() || index.reach().is_some(), "{index:?}");
    index
}

/// The fraction of the rows whose label is right.
fn recall<T: Real>(index: &Index<T>, data: &Dataset<'_, T>) -> f64 {
    let labels = index.predict(data, &Run::default()).unwrap();
    let (right, checked) = index.audit(data, &labels, data.rows(), &Run::default()).unwrap();
    assert_eq!(checked, data.rows());
    right as f64 / checked as f64
}

#[test]
fn an_index_can_be_kept_and_shared() {
    fn kept<T: Send + Sync + Clone + std::fmt::Debug + 'static>(_: &T) {}
    let index = model::<f32>(300, 3, true).index(&Run::default()).unwrap();
    kept(&index);
    assert!(format!("{index:?}").starts_with("Index { clusters: 300, dim: 3, cells: "));
}

#[test]
fn the_requested_recall_is_reached_and_reported() {
    for (clustered, dim) in [(true, 12), (false, 4)] {
        let x = rows::<f32>(4000, dim, clustered, 2);
        let data = Dataset::new(x.view()).unwrap();
        for asked in [0.8, 0.95, 0.99] {
            let mut index = model(1500, dim, clustered).index(&Run::default()).unwrap();
            let reported = index.tune(&data, asked, &Run::default()).unwrap();
            let kept = recall(&index, &data);
            assert!(kept >= asked - 0.01 && (kept - reported).abs() < 0.03, "{asked}: {kept}, {reported}");
        }
    }
}

#[test]
fn data_far_from_zero_and_in_either_type_are_searched_as_well() {
    fn check<T: Real>(offset: f64) {
        let shift = |x: Array2<T>| x.mapv(|v| v + T::from_f64(offset));
        let (x, mu) = (shift(rows(3000, 10, true, 2)), shift(rows(900, 10, true, 1)));
        let data = Dataset::new(x.view()).unwrap();
        let index = tuned(&Model::new(mu.view(), 1.0).unwrap(), &data);
        assert!(recall(&index, &data) >= 0.94, "{offset}: {}", T::NAME);
    }
    check::<f32>(0.0);
    check::<f32>(1e4);
    check::<f64>(0.0);
    check::<f64>(-1e9);
}

#[test]
fn the_nearest_few_have_exact_distances_in_order() {
    let x = rows::<f32>(2500, 8, true, 2);
    let (data, model, run) = (Dataset::new(x.view()).unwrap(), model::<f32>(1200, 8, true), Run::default());
    let mut index = model.index(&run).unwrap();
    for k in [1, 2, 5, 16, 17] {
        let reported = index.tune_top_k(&data, k, 0.95, &run).unwrap();
        let ((ids, distances), (right, nearest)) =
            (index.top_k(&data, k, &run).unwrap(), model.top_k(&data, k, &run).unwrap());
        assert_eq!((ids.dim(), distances.dim()), ((2500, k), (2500, k)));
        let found =
            distances.iter().zip(&nearest).filter(|&(&a, &b)| is_right(a, b)).count() as f64 / nearest.len() as f64;
        assert!(found >= 0.94 && (found - reported).abs() < 0.03, "{k}: {found}, {reported}");
        for (n, (ids, distances)) in ids.rows().into_iter().zip(distances.rows()).enumerate() {
            let of = |&c: &u32| right.row(n).iter().position(|&r| r == c).map(|j| nearest[[n, j]]);
            assert!(ids.iter().zip(distances).all(|(c, &d)| of(c).is_none_or(|exact| exact == d)));
            assert!(distances.iter().is_sorted());
            let mut sorted = ids.to_vec();
            sorted.sort_unstable();
            assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "no cluster twice");
        }
    }
}

#[test]
fn rows_whose_cells_have_too_few_clusters_get_all_k() {
    let x = rows::<f32>(500, 6, true, 2);
    let (data, model, run) = (Dataset::new(x.view()).unwrap(), model::<f32>(300, 6, true), Run::default());
    let mut index = model.index(&run).unwrap();
    index.set_reach(0.0).unwrap();
    let (ids, distances) = index.top_k(&data, 16, &run).unwrap();
    assert!(ids.iter().all(|&c| c < 300) && distances.iter().all(|&d| d > 0.0));
    index.set_reach(f64::INFINITY).unwrap();
    let labels = index.predict(&data, &run).unwrap();
    assert!(index.audit(&data, &labels, 500, &run).unwrap().0 >= 495);
}

#[test]
fn equal_centers_and_equal_rows_work() {
    let run = Run::default();
    let one = Model::new(Array2::from_elem((400, 3), 2.5f32).view(), 1.0).unwrap();
    let few = Model::new(Array2::from_shape_fn((400, 3), |(c, _)| (c % 3) as f32).view(), 1.0).unwrap();
    let x = Array2::from_shape_fn((300, 3), |(n, _)| (n % 3) as f32);
    let data = Dataset::new(x.view()).unwrap();
    for (model, k) in [(&one, 1), (&few, 1), (&one, 4), (&few, 4)] {
        let mut index = model.index(&run).unwrap();
        index.tune(&data, 0.98, &run).unwrap();
        index.set_reach(0.0).unwrap();
        let (_, distances) = index.top_k(&data, k, &run).unwrap();
        assert_eq!(distances, model.top_k(&data, k, &run).unwrap().1, "{index:?}");
    }
}

#[test]
fn a_restored_reach_gives_the_same_labels() {
    let x = rows::<f64>(2500, 9, true, 2);
    let (data, model, run) = (Dataset::new(x.view()).unwrap(), model::<f64>(700, 9, true), Run::default());
    let index = tuned(&model, &data);
    let mut other = model.index(&run).unwrap();
    if let Some(reach) = index.reach() {
        other.set_reach(reach).unwrap();
    }
    assert_eq!(other.reach(), index.reach());
    assert_eq!(other.predict(&data, &run).unwrap(), index.predict(&data, &run).unwrap());
    for bad in [-1.0, f64::NAN] {
        assert!(matches!(other.set_reach(bad), Err(Error::BadParameter { name: "reach", .. })));
    }
}

#[test]
fn neither_threads_nor_the_size_of_calls_change_a_bit() {
    let x = rows::<f32>(3000, 7, true, 2);
    let (data, model) = (Dataset::new(x.view()).unwrap(), model::<f32>(800, 7, true));
    let with = |threads| {
        let run = Run { threads: Some(threads), ..Run::default() };
        let mut index = model.index(&run).unwrap();
        let recall = index.tune(&data, 0.97, &run).unwrap();
        (recall, index.reach(), index.predict(&data, &run).unwrap(), index.top_k(&data, 3, &run).unwrap())
    };
    let one = with(1);
    assert!(one == with(2) && one == with(7));
    let (index, run) = (tuned(&model, &data), Run::default());
    let whole = index.predict(&data, &run).unwrap();
    for size in [1, 37, 1000] {
        for (part, labels) in x.axis_chunks_iter(ndarray::Axis(0), size).zip(whole.chunks(size)).take(5) {
            assert_eq!(index.predict(&Dataset::new(part).unwrap(), &run).unwrap(), labels);
        }
    }
}

#[test]
fn searches_that_cannot_be_faster_are_exact() {
    let run = Run::default();
    let x = rows::<f32>(500, 5, true, 2);
    let (data, few) = (Dataset::new(x.view()).unwrap(), model::<f32>(255, 5, true));
    let mut index = few.index(&run).unwrap();
    assert!(index.is_exact());
    assert_eq!(index.tune(&data, 1.0, &run), Ok(1.0));
    index.set_reach(1.0).unwrap();
    assert_eq!(index.reach(), None);
    assert_eq!(index.predict(&data, &run), few.predict(&data, &run));
    assert_eq!(index.top_k(&data, 3, &run), few.top_k(&data, 3, &run));
    let wide = Model::new(Array2::from_elem((256, MOST_COLUMNS + 1), 0.0f32).view(), 1.0).unwrap();
    assert!(wide.index(&run).unwrap().is_exact());
    let many = model::<f32>(256, 5, true).index(&run).unwrap();
    assert_eq!(many.is_exact(), !Int8Isa::best().is_fast());
    // Before it is tuned, searches are exact.
    assert_eq!(many.predict(&data, &run), model::<f32>(256, 5, true).predict(&data, &run));
}

#[test]
fn data_without_structure_in_many_columns_are_searched_exactly() {
    let (x, run) = (rows::<f32>(1500, 60, false, 2), Run::default());
    let (data, model) = (Dataset::new(x.view()).unwrap(), model::<f32>(400, 60, false));
    let mut index = model.index(&run).unwrap();
    assert_eq!((index.tune(&data, 1.0, &run), index.reach()), (Ok(1.0), None));
    assert_eq!(index.predict(&data, &run), model.predict(&data, &run));
}

#[test]
fn an_audit_counts_wrong_labels_and_refuses_impossible_ones() {
    let (x, run) = (rows::<f32>(600, 4, true, 2), Run::default());
    let (data, model) = (Dataset::new(x.view()).unwrap(), model::<f32>(300, 4, true));
    let (index, mut labels) = (model.index(&run).unwrap(), model.predict(&data, &run).unwrap());
    assert_eq!(index.audit(&data, &labels, 100, &run), Ok((100, 100)));
    assert_eq!(index.audit(&data, &labels, 10_000, &run), Ok((600, 600)));
    assert_eq!(index.audit(&data, &labels, 0, &run), Ok((0, 0)));
    labels.iter_mut().for_each(|label| *label = (*label + 1) % 300);
    assert!(index.audit(&data, &labels, 600, &run).unwrap().0 < 60);
    labels.fill(300);
    assert!(matches!(index.audit(&data, &labels, 5, &run), Err(Error::BadParameter { name: "labels", .. })));
    assert!(matches!(index.audit(&data, &labels[1..], 5, &run), Err(Error::BadParameter { name: "labels", .. })));
}

#[test]
fn bad_arguments_are_named() {
    let (x, run) = (rows::<f32>(50, 4, true, 2), Run::default());
    let data = Dataset::new(x.view()).unwrap();
    let mut index = model::<f32>(300, 4, true).index(&run).unwrap();
    for recall in [0.0, 1.1, f64::NAN] {
        assert!(matches!(index.tune(&data, recall, &run), Err(Error::BadParameter { name: "recall", .. })));
    }
    for k in [0, 301] {
        assert!(matches!(index.top_k(&data, k, &run), Err(Error::BadParameter { name: "k", .. })));
    }
    let other = rows::<f32>(50, 3, true, 2);
    let wrong = Dataset::new(other.view()).unwrap();
    assert_eq!(index.predict(&wrong, &run), Err(Error::DimensionMismatch { columns: 3, dim: 4 }));
    let mut bad = x.clone();
    bad[[7, 2]] = f32::INFINITY;
    let error = index.predict(&Dataset::new(bad.view()).unwrap(), &run).unwrap_err();
    assert_eq!(error.to_string(), "data[7, 2] is inf; every value must be finite");
}

#[test]
fn a_cancelled_observer_stops_everything() {
    struct Stop;
    impl Observer for Stop {
        fn cancelled(&self) -> bool {
            true
        }
    }
    let x = rows::<f32>(3000, 6, true, 2);
    let (data, model) = (Dataset::new(x.view()).unwrap(), model::<f32>(600, 6, true));
    let stop = Run { observer: &Stop, ..Run::default() };
    let mut index = tuned(&model, &data);
    if !index.is_exact() {
        assert_eq!(model.index(&stop).map(|_| ()), Err(Error::Cancelled));
    }
    let before = index.reach();
    assert_eq!(index.tune(&data, 0.9, &stop), Err(Error::Cancelled));
    assert_eq!(index.reach(), before);
    assert_eq!(index.predict(&data, &stop), Err(Error::Cancelled));
    assert_eq!(index.top_k(&data, 2, &stop), Err(Error::Cancelled));
    assert_eq!(index.audit(&data, &vec![0; 3000], 9, &stop), Err(Error::Cancelled));
}
