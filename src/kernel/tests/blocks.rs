//! Promises of row blocks besides agreement with their twins.

use super::{blocks_agree, everywhere, loaded, nearest, numbers};
use crate::kernel::block::{Centers, RowBlock, block_rows};
use crate::kernel::dispatch::Isa;
use crate::kernel::{Real, distance};

fn ties<T: Real>(isa: Isa, h: usize) {
    let dim = 5;
    let one = numbers::<T>(dim, 3);
    let far: Vec<T> = one.iter().map(|&x| x + T::from_f64(8.0)).collect();
    // Centers 1, 4, 7, ... are all the same and nearest.
    let mu: Vec<T> = (0..90).flat_map(|c| if c % 3 == 1 { one.clone() } else { far.clone() }).collect();
    let block = loaded(isa, &numbers(37 * dim, 9), dim, None);
    let (ids, _) = nearest(&block, &Centers::with_isa(isa, &mu, dim), h);
    let expected: Vec<u32> = (0..h as u32).map(|k| 3 * k + 1).collect();
    ids.chunks_exact(h).for_each(|ids| assert_eq!(ids, expected));
}

#[test]
fn ties_go_to_the_lower_index() {
    for h in [1, 2, 3, 5, 8, 11, 30] {
        everywhere!(ties(h));
    }
}

fn zero_at_itself<T: Real>(isa: Isa, dim: usize) {
    let rows = numbers::<T>(41 * dim, 5);
    let (block, centers) = (loaded(isa, &rows, dim, None), Centers::with_isa(isa, &rows, dim));
    for h in [1, 5, 9] {
        let (ids, dist) = nearest(&block, &centers, h);
        for r in 0..41 {
            assert_eq!((ids[r * h], dist[r * h]), (r as u32, T::ZERO));
        }
    }
}

#[test]
fn a_row_that_is_a_center_is_at_distance_zero() {
    for dim in [1, 2, 3, 7, 64, 131] {
        everywhere!(zero_at_itself(dim));
    }
}

fn position_free<T: Real>(isa: Isa, dim: usize, h: usize) {
    let (rows, mu) = (numbers::<T>(70 * dim, 5), numbers::<T>(101 * dim, 6));
    let centers = Centers::with_isa(isa, &mu, dim);
    let (ids, dist) = nearest(&loaded(isa, &rows, dim, None), &centers, h);
    for start in [1, 2, 17, 33, 69] {
        let (some_ids, some_dist) = nearest(&loaded(isa, &rows[start * dim..], dim, None), &centers, h);
        assert_eq!((&some_ids[..], &some_dist[..]), (&ids[start * h..], &dist[start * h..]));
    }
    // Nor does the distance of a center depend on the group of centers it falls into.
    let mut all = vec![T::ZERO; 70 * 101];
    loaded(isa, &rows, dim, None).distances(&centers, &mut all);
    for skip in [1, 3, 50, 99] {
        let mut part = vec![T::ZERO; 70 * (101 - skip)];
        let fewer = Centers::with_isa(isa, &mu[skip * dim..], dim);
        loaded(isa, &rows, dim, None).distances(&fewer, &mut part);
        for (part, all) in part.chunks_exact(101 - skip).zip(all.chunks_exact(101)) {
            assert_eq!(part, &all[skip..]);
        }
    }
}

#[test]
fn a_row_gets_the_same_bits_wherever_it_stands() {
    for (dim, h) in [(1, 1), (3, 5), (30, 1), (65, 4), (300, 12)] {
        everywhere!(position_free(dim, h));
    }
}

fn far_off<T: Real>(isa: Isa, dim: usize) {
    // Rows of integers around 2^20, which both types represent exactly.
    let far = T::from_f64(1_048_576.0);
    let near =
        |seed, n| -> Vec<T> { numbers::<T>(n, seed).iter().map(|x| T::from_f64((x.to_f64() * 9.0).round())).collect() };
    let (rows, mu) = (near(1, 40 * dim), near(2, 20 * dim));
    let shifted: Vec<T> = rows.iter().map(|&x| x + far).collect();
    let centers = Centers::with_isa(isa, &mu, dim);
    let here = nearest(&loaded(isa, &rows, dim, None), &centers, 3);
    assert_eq!(nearest(&loaded(isa, &shifted, dim, Some(&vec![far; dim])), &centers, 3), here);
}

#[test]
fn rows_far_from_zero_are_as_good_with_an_origin() {
    everywhere!(far_off(7));
}

fn extremes<T: Real>(isa: Isa, _: ()) {
    blocks_agree::<T>(isa, 6, 20, 1, 1, 3);
    blocks_agree::<T>(isa, 6, 20, 8, 8, 3);
    blocks_agree::<T>(isa, 6, 20, 64, 64, 3);
    blocks_agree::<T>(isa, 6, 20, 75, 75, 3);
    blocks_agree::<T>(isa, 6, 40, 700, 90, 3);
    blocks_agree::<T>(isa, 700, 3, 19, 5, 3);
    blocks_agree::<T>(isa, 3001, 35, 31, 2, 3);
    let mu = numbers::<T>(12, 1);
    let block = loaded(isa, &[], 4, None);
    let (ids, _) = nearest(&block, &Centers::with_isa(isa, &mu, 4), 2);
    block.distances(&Centers::with_isa(isa, &mu, 4), &mut []);
    assert!(ids.is_empty() && block.rows == 0);
    distance::gathered_distances(isa, &mu[..4], &mu, &[], &mut []);
}

#[test]
fn one_center_all_centers_and_no_rows_are_fine() {
    everywhere!(extremes(()));
}

#[test]
#[should_panic(expected = "center 3 of 3")]
fn an_id_out_of_range_panics() {
    distance::gathered_distances(Isa::best(), &[0.0f32; 4], &[0.0; 12], &[1, 3], &mut [0.0; 2]);
}

#[test]
fn a_reused_block_forgets_what_it_held() {
    let (long, short) = (numbers::<f32>(90 * 20, 1), numbers::<f32>(7 * 3, 2));
    let mut block = RowBlock::default();
    block.load(&long, 20, None);
    block.load(&short, 3, None);
    let centers = Centers::new(&short, 3);
    let (ids, _) = nearest(&block, &centers, 1);
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn blocks_are_whole_tiles_that_fit_the_cache() {
    for dim in [1, 8, 64, 784, 3072, 100_000] {
        let (rows, tile) = (block_rows::<f32>(dim), 2 * Isa::best().lanes::<f32>());
        assert!(rows % tile == 0 && rows >= tile && rows <= 1024);
    }
}
