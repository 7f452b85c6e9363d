//! Promises of builders: unbiased weights, the same bits for any chunks, merges in any order, and errors that change
//! nothing.

use super::*;
use crate::data::coreset::tests::{error, unbiased};
use crate::lightweight_coreset;
use ndarray::{Array1, Array2, array};
use proptest::prelude::*;

fn one() -> Run<'static> {
    Run { threads: Some(1), ..Run::default() }
}

/// A few far outliers, and a drift.
fn skewed(rows: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, 2), |(n, d)| {
        ((n * 37 + d * 11) % 53) as f64 + if n % 50 == 3 { 400.0 } else { n as f64 / 500.0 }
    })
}

fn weights(rows: usize) -> Array1<f64> {
    Array1::from_shape_fn(rows, |n| if n % 7 == 3 { 0.0 } else { 1.0 + (n % 5) as f64 })
}

/// A builder over `rows` of `data`, in chunks of the given sizes, cyclically.
fn built(
    data: &Dataset<'_, f64>,
    rows: std::ops::Range<usize>,
    size: usize,
    seed: u64,
    cuts: &[usize],
) -> CoresetBuilder<f64> {
    let mut builder = CoresetBuilder::new(size, seed).unwrap().starting_at(rows.start as u64).unwrap();
    let (mut start, mut cuts) = (rows.start, cuts.iter().cycle());
    while start < rows.end {
        let end = rows.end.min(start + cuts.next().unwrap());
        builder.add(&data.slice(start..end).unwrap(), &one()).unwrap();
        start = end;
    }
    builder
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_chunks_and_any_number_of_threads_give_the_same_bits(
        rows in 1usize..9000, size in 1usize..900, seed in 0u64..99, cuts in prop::collection::vec(1usize..5000, 1..6)
    ) {
        let (x, w) = (skewed(rows), weights(rows));
        let data = Dataset::new(x.view()).unwrap().weighted_part(w.view()).unwrap();
        let mut whole = CoresetBuilder::new(size, seed).unwrap();
        whole.add(&data, &Run { threads: Some(3), ..Run::default() }).unwrap();
        let parts = built(&data, 0..rows, size, seed, &cuts);
        prop_assert_eq!(&parts.result().unwrap(), &whole.result().unwrap());
        // A serialization round trip in between changes nothing.
        let mut moved = built(&data, 0..rows / 2, size, seed, &cuts);
        moved = CoresetBuilder::from_bytes(&moved.to_bytes()).unwrap();
        if rows / 2 < rows {
            moved.add(&data.slice(rows / 2..rows).unwrap(), &one()).unwrap();
        }
        prop_assert_eq!(&moved.result().unwrap(), &whole.result().unwrap());
        prop_assert_eq!((moved.rows_seen(), moved.next_row()), (rows as u64, rows as u64));
    }

    #[test]
    fn merges_do_not_depend_on_their_order(
        cuts in (1usize..3000, 1usize..3000, 1usize..3000), size in 1usize..900, seed in 0u64..99
    ) {
        let ends = [cuts.0, cuts.0 + cuts.1, cuts.0 + cuts.1 + cuts.2];
        let (x, w) = (skewed(ends[2]), weights(ends[2]));
        let data = Dataset::new(x.view()).unwrap().weighted_part(w.view()).unwrap();
        let a = built(&data, 0..ends[0], size, seed, &[1000]);
        let b = built(&data, ends[0]..ends[1], size, seed, &[700]);
        let c = built(&data, ends[1]..ends[2], size, seed, &[5000]);
        let merged = |parts: [&CoresetBuilder<f64>; 3]| {
            let mut all = parts[0].clone();
            let mut rest = parts[1].clone();
            rest.merge(parts[2].clone()).unwrap();
            all.merge(rest).unwrap();
            all
        };
        let all = merged([&a, &b, &c]);
        prop_assert_eq!(all.result().ok(), merged([&c, &a, &b]).result().ok());
        prop_assert_eq!(all.result().ok(), merged([&b, &c, &a]).result().ok());
        prop_assert_eq!((all.rows_seen(), all.next_row()), (ends[2] as u64, ends[2] as u64));
        // The merged sample has each row with the values it had in its own builder.
        let keys = |builder: &CoresetBuilder<f64>| {
            let mut flushed = builder.clone();
            flushed.flush().unwrap();
            flushed.sample.cut().unwrap();
            flushed.sample.rows
        };
        let mut expected: Vec<_> = [&a, &b, &c].iter().flat_map(|part| keys(part)).collect();
        expected.sort_by(|a, b| a.key.total_cmp(&b.key).then(a.row.cmp(&b.row)));
        expected.truncate(size + 1);
        prop_assert_eq!(keys(&all), expected);
    }

    #[test]
    fn damaged_bytes_are_refused(at in any::<prop::sample::Index>(), flip in 1u8.., cut in any::<bool>()) {
        let x = skewed(3000);
        let data = Dataset::new(x.view()).unwrap();
        let mut bytes = built(&data, 0..3000, 40, 1, &[900]).to_bytes();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= flip }
        let refused = matches!(CoresetBuilder::<f64>::from_bytes(&bytes), Err(Error::BadBytes { .. }));
        prop_assert!(refused);
    }
}

#[test]
fn sums_are_unbiased_in_one_pass_in_two_and_merged() {
    let (x, w) = (skewed(6000), weights(6000));
    let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
    let exact = error(&x, w.as_slice().unwrap());
    let one_pass = |seed| built(&data, 0..6000, 200, seed, &[1700]).result().unwrap();
    let merged = |seed| {
        let mut all = built(&data, 0..1000, 200, seed, &[1700]);
        all.merge(built(&data, 1000..6000, 200, seed, &[1700])).unwrap();
        all.result().unwrap()
    };
    let two_passes = |seed| {
        let mut first = FirstPass::new();
        let chunks = [0..2500, 2500..6000].map(|rows| data.slice(rows).unwrap());
        chunks.iter().for_each(|chunk| first.add(chunk, &one()).unwrap());
        let mut second = first.second_pass(200, seed).unwrap();
        chunks.iter().for_each(|chunk| second.add(chunk, &one()).unwrap());
        second.result().unwrap()
    };
    for draw in [&one_pass as &dyn Fn(u64) -> Coreset<f64>, &merged, &two_passes] {
        let drawn: Vec<Coreset<f64>> = (0..300).map(draw).collect();
        unbiased(&drawn.iter().map(|c| error(&c.points, &c.weights)).collect::<Vec<_>>(), exact);
        unbiased(&drawn.iter().map(|c| c.weights.iter().sum()).collect::<Vec<_>>(), data.total_weight());
        for c in &drawn {
            assert!(c.indices.len() == 200 && c.indices.is_sorted_by(|a, b| a < b));
            assert!(c.points.rows().into_iter().zip(&c.indices).all(|(p, &n)| p == x.row(n) && w[n] > 0.0));
        }
    }
}

#[test]
fn a_changing_stream_keeps_its_first_rows() {
    // A third of the rows are close to 0 and come first; the rest are far away.
    let x = Array2::from_shape_fn((60_000, 2), |(n, d)| {
        let noise = ((n * 7919 + d * 104_729) % 1000) as f64 / 1000.0;
        if n < 20_000 { noise } else { 100.0 * noise + 300.0 }
    });
    let data = Dataset::new(x.view()).unwrap();
    for seed in 0..20 {
        let coreset = built(&data, 0..60_000, 600, seed, &[4096]).result().unwrap();
        let first = coreset.indices.iter().filter(|&&n| n < 20_000).count();
        let weight: f64 = coreset.weights[..first].iter().sum();
        assert!(first > 60, "{first} rows stand for a third");
        assert!((weight / 20_000.0 - 1.0).abs() < 0.5, "{weight}");
    }
}

#[test]
fn few_rows_represent_themselves_and_constant_rows_each_other() {
    let x = skewed(3000);
    let w = weights(3000);
    let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
    let all = built(&data, 0..3000, 9000, 1, &[100]).result().unwrap();
    let positive: Vec<usize> = (0..3000).filter(|&n| w[n] > 0.0).collect();
    assert_eq!(all.indices, positive);
    assert!(all.weights.iter().zip(&positive).all(|(&v, &n)| v == w[n]));
    let same = Array2::from_elem((5000, 2), 1e6);
    let drawn = built(&Dataset::new(same.view()).unwrap(), 0..5000, 50, 1, &[999]).result().unwrap();
    let share = drawn.weights[0];
    assert!(drawn.weights.iter().all(|&v| v == share) && (share / 100.0 - 1.0).abs() < 0.6, "{share}");
}

#[test]
fn scales_of_values_and_weights_do_not_matter() {
    let x = skewed(5000);
    let drawn = |x: &Array2<f64>, w: &Array1<f64>| {
        let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        built(&data, 0..5000, 100, 3, &[1234]).result().unwrap()
    };
    let w = weights(5000);
    let expected = drawn(&x, &w);
    for scale in [2f64.powi(-400), 2f64.powi(400)] {
        assert_eq!(drawn(&x.mapv(|v| v * scale), &w).indices, expected.indices, "values times {scale}");
        let found = drawn(&x, &w.mapv(|v| v * scale));
        assert_eq!(found.indices, expected.indices, "weights times {scale}");
        assert!(found.weights.iter().zip(&expected.weights).all(|(a, b)| (a / scale / b - 1.0).abs() < 1e-12));
    }
    // Squares that overflow: `float32` falls back to `float64`; in `float64` all have the largest importance.
    let far = x.mapv(|v| v as f32 * 1e30);
    let mut builder = CoresetBuilder::new(100, 3).unwrap();
    builder.add(&Dataset::new(far.view()).unwrap(), &one()).unwrap();
    assert!(builder.result().unwrap().weights.iter().all(|w| w.is_finite() && *w > 0.0));
    let farther = x.mapv(|v| v * 1e300);
    let data = Dataset::new(farther.view()).unwrap();
    assert!(built(&data, 0..5000, 100, 3, &[999]).result().unwrap().weights.iter().all(|w| w.is_finite() && *w > 0.0));
}

#[test]
fn errors_name_what_is_wrong_and_change_nothing() {
    let x = skewed(70_000);
    let data = Dataset::new(x.view()).unwrap();
    assert_eq!(CoresetBuilder::<f32>::new(0, 0).unwrap_err().to_string(), "size is 0; it must be at least 1");
    assert_eq!(CoresetBuilder::<f32>::new(3, 0).unwrap().result().unwrap_err(), Error::NoRows);
    for before in [0, 100, 2048, 30_000] {
        let mut builder = built(&data, 0..before, 500, 1, &[10_000]);
        let bytes = builder.to_bytes();
        for bad in [0, 1500, 2049, 30_000, 39_999] {
            let mut chunk = x.slice(ndarray::s![before..before + 40_000, ..]).to_owned();
            chunk[[bad, 1]] = f64::NAN;
            let error = builder.add(&Dataset::new(chunk.view()).unwrap(), &one()).unwrap_err();
            let row = before + bad;
            let expected = format!("row {row} of the stream is NaN in column 1; every value must be finite");
            assert_eq!(error.to_string(), expected);
            assert!(builder.to_bytes() == bytes, "{before} {bad}");
        }
        builder.add(&data.slice(before..70_000).unwrap(), &one()).unwrap();
        assert_eq!(builder.result().unwrap(), built(&data, 0..70_000, 500, 1, &[70_000]).result().unwrap());
        let narrow = array![[1.0]];
        let error = builder.add(&Dataset::new(narrow.view()).unwrap(), &one()).unwrap_err();
        assert_eq!(error.to_string(), "data has 1 columns but the rows before it have 2");
    }
    let mut some = built(&data, 0..100, 50, 1, &[100]);
    let error = some.merge(built(&data, 60..200, 50, 1, &[100])).unwrap_err();
    assert_eq!(error, Error::RepeatedRows { first: 60, last: 99 });
    assert!(CoresetBuilder::<f32>::new(3, 0).unwrap().starting_at(1 << 63).is_err());
    let zero = data.slice(0..10).unwrap().weighted_part(Array1::zeros(10).view()).unwrap();
    let mut nothing = CoresetBuilder::new(3, 0).unwrap();
    nothing.add(&zero, &one()).unwrap();
    assert_eq!(nothing.result().unwrap_err(), Error::ZeroWeights);
}

#[test]
fn rows_after_a_merge_get_free_numbers() {
    let x = skewed(1000);
    let data = Dataset::new(x.view()).unwrap();
    let mut builder = built(&data, 0..300, 50, 1, &[100]);
    builder.merge(built(&data, 300..500, 20, 1, &[100])).unwrap();
    assert_eq!((builder.next_row(), builder.rows_seen(), builder.size()), (500, 500, 20));
    let mut apart = CoresetBuilder::new(20, 1).unwrap().starting_at(1 << 40).unwrap();
    apart.add(&data.slice(500..600).unwrap(), &one()).unwrap();
    builder.merge(apart).unwrap();
    assert_eq!((builder.next_row(), builder.rows_seen()), (500, 600));
    builder.add(&data.slice(600..1000).unwrap(), &one()).unwrap();
    assert_eq!(builder.rows.0, [0..900, 1 << 40..(1 << 40) + 100]);
}

#[test]
fn the_second_pass_notices_what_has_changed() {
    let x = skewed(4000);
    let data = Dataset::new(x.view()).unwrap();
    let chunk = |rows| data.slice(rows).unwrap();
    let mut first = FirstPass::new();
    first.add(&chunk(0..1000), &one()).unwrap();
    first.add(&chunk(1000..4000), &one()).unwrap();
    let second = first.second_pass(100, 1).unwrap();
    let fails = |chunks: &[Dataset<'_, f64>]| {
        let mut second = second.clone();
        let added = chunks.iter().try_for_each(|chunk| second.add(chunk, &one()));
        added.and_then(|()| second.result().map(|_| ())).unwrap_err().to_string()
    };
    let rest = "both must see the same chunks";
    for (chunks, expected) in [
        (
            vec![chunk(0..999)],
            "chunk 0 of the stream has another number of rows in the second pass (999) than in the first (1000)",
        ),
        (
            vec![chunk(0..1000)],
            "chunk 1 of the stream has another number of rows in the second pass (0) than in the first (3000)",
        ),
        (
            vec![chunk(0..1000), chunk(1000..4000), chunk(0..1)],
            "chunk 2 of the stream has another number of rows in the second pass (1) than in the first (0)",
        ),
    ] {
        assert_eq!(fails(&chunks), format!("{expected}; {rest}"));
    }
    assert!(fails(&[chunk(3000..4000)]).starts_with("chunk 0 of the stream has another sum of squared distances"));
    assert!(FirstPass::<f64>::new().second_pass(1, 0).is_err());
}

#[test]
fn overflowing_sums_of_weights_are_named() {
    let (x, weights) = (array![[0.0], [1e-3]], array![6e307, 6e307]);
    let data = Dataset::new(x.view()).unwrap().weighted(weights.view()).unwrap();
    let mut first = FirstPass::new();
    first.add(&data, &one()).unwrap();
    let error = first.add(&data, &one()).unwrap_err().to_string();
    assert_eq!(error, "the sum of all weights is inf; it must be at most 1.7976931348623157e308");
    let mut second = first.second_pass(2, 0).unwrap();
    second.add(&data, &one()).unwrap();
    assert_eq!(second.result().unwrap().points.nrows(), 2);
}

#[test]
fn two_passes_have_the_importance_of_the_lightweight_coreset() {
    let x = skewed(4000).mapv(|v| v as f32);
    let data = Dataset::new(x.view()).unwrap();
    let drawn = |cut: usize| {
        let mut first = FirstPass::new();
        let chunks = [data.slice(0..cut).unwrap(), data.slice(cut..4000).unwrap()];
        chunks.iter().for_each(|chunk| first.add(chunk, &one()).unwrap());
        let mut second = first.second_pass(300, 5).unwrap();
        chunks.iter().for_each(|chunk| second.add(chunk, &one()).unwrap());
        second.result().unwrap()
    };
    let (a, b) = (drawn(1), drawn(2222));
    assert_eq!(a.indices, b.indices);
    assert!(a.weights.iter().zip(&b.weights).all(|(v, w)| (v / w - 1.0).abs() < 1e-9));
    // Up to one factor, the weights are those of draws with replacement.
    let with = lightweight_coreset(&data, 3000, 5, &one()).unwrap();
    let ratios: Vec<f64> = (a.indices.iter().zip(&a.weights))
        .filter(|&(_, &w)| w > 1.0)
        .filter_map(|(n, w)| with.indices.iter().position(|m| m == n).map(|at| w / with.weights[at]))
        .collect();
    assert!(ratios.len() > 50 && ratios.iter().all(|&r| (r / ratios[0] - 1.0).abs() < 1e-4), "{ratios:?}");
}
