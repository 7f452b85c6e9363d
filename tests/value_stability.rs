//! A seed keeps its meaning from version to version: the results of these fits are frozen here. A change of these
//! numbers breaks values for users and must be in the changelog. With DGMM_PRINT_VALUES set, the tests print the
//! numbers instead, and rewrite `tests/data/values.txt`, which has the results of default settings, and `shapes.txt`,
//! for mixtures and directions.

use crate::common::{Random, weights};
use dgmm::{
    Covariance, Dataset, Dgmm, Engine, ExactGmm, GaussianMixture, Init, KMeans, Metric, Params, Real, Silent,
    SimilarityKind, VcGmm,
};
use ndarray::{Array2, s};
use std::fmt::Write;

const VALUES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/values.txt");
const SHAPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/shapes.txt");

/// The name of a case, its settings, whether centers are given, and whether its rows have weights.
type Case = (String, Params, bool, bool);

const ROWS: usize = 48;
const CLUSTERS: usize = 8;

/// Integers, in six groups that are far apart, so that rounding decides nothing.
fn data() -> Array2<f64> {
    Array2::from_shape_fn((ROWS, 2), |(n, d)| {
        let (group, k) = (n % 6, n / 6);
        let place = [[0, 0], [40, 7], [11, 52], [70, 60], [95, 18], [33, 90]][group][d];
        (place + (k * k * (3 + 2 * d) + 5 * group) % 9) as f64
    })
}

/// The labels as a string of digits, and the centers.
fn fit(params: Params) -> (String, Vec<[f64; 2]>) {
    let x = data();
    let fit = params.init(Init::AfkMc2).max_iter(6).tol(0.0).seed(11).fit(&Dataset::new(x.view()).unwrap()).unwrap();
    let labels = fit.labels.iter().map(|c| char::from_digit(*c, 10).unwrap()).collect();
    (labels, fit.model.centers().rows().into_iter().map(|c| [c[0], c[1]]).collect())
}

fn assert_frozen(name: &str, params: Params, labels: &str, centers: [[f64; 2]; CLUSTERS]) {
    let (now, places) = fit(params);
    if std::env::var_os("DGMM_PRINT_VALUES").is_some() {
        let places: Vec<String> = places.iter().map(|[a, b]| format!("[{a:.7}, {b:.7}]")).collect();
        println!("{name}: \"{now}\", [{}]", places.join(", "));
        return;
    }
    assert_eq!(now, labels, "{name}: labels");
    for (now, then) in places.as_flattened().iter().zip(centers.as_flattened()) {
        assert!((now - then).abs() <= 1e-6, "{name}: {now} was {then}");
    }
}

fn dgmm(similarity: SimilarityKind) -> Params {
    Dgmm::params(CLUSTERS).truncation(3).proposals(2).engine(Engine::Pointwise).similarity(similarity)
}

#[test]
fn k_means_keeps_its_values() {
    assert_frozen(
        "k-means",
        KMeans::params(CLUSTERS),
        "250143250643257143250143257143257143250143257143",
        [
            [12.7500000, 54.2500000],
            [72.5714286, 66.2857143],
            [1.8750000, 3.1250000],
            [36.2500000, 94.5000000],
            [98.8750000, 20.8750000],
            [46.8750000, 11.7500000],
            [70.0000000, 62.0000000],
            [15.0000000, 53.5000000],
        ],
    );
    assert_frozen(
        "k-means, coreset",
        KMeans::params(CLUSTERS).coreset_size(24),
        "250173650143250143250173650173650173250173250143",
        [
            [12.7740063, 53.5160042],
            [73.8519522, 65.6419920],
            [1.5556860, 1.0371240],
            [40.0000000, 97.0000000],
            [100.0000000, 23.5148091],
            [45.0000000, 12.0000000],
            [3.0000000, 5.0000000],
            [97.9563059, 19.6812314],
        ],
    );
}

#[test]
fn exact_gmm_keeps_its_values() {
    assert_frozen(
        "exact GMM",
        ExactGmm::params(CLUSTERS),
        "257643250143250143257643257143257143257643250143",
        [
            [13.8756015, 53.8852768],
            [71.8836931, 65.8418975],
            [1.8750000, 3.1250000],
            [36.2500000, 94.5000000],
            [98.8750000, 20.8750000],
            [46.8750000, 11.7500000],
            [72.5490142, 65.6749846],
            [13.8743930, 53.8646282],
        ],
    );
}

#[test]
fn vc_gmm_keeps_its_values() {
    assert_frozen(
        "vc-GMM",
        VcGmm::params(CLUSTERS).truncation(3).neighbors(3),
        "527641520643520643527641527643527643527641520643",
        [
            [14.0287045, 54.2856044],
            [37.0157331, 95.0620809],
            [46.8750000, 11.7500000],
            [35.4998103, 93.9493287],
            [98.8750000, 20.8750000],
            [1.8750000, 3.1250000],
            [72.2500000, 65.7500000],
            [13.7004103, 53.4086033],
        ],
    );
    assert_frozen(
        "vc-GMM, not random",
        VcGmm::params(CLUSTERS).truncation(3).neighbors(3).random_neighbor(false),
        "527641520643520643527641527643527643527641520643",
        [
            [13.9355274, 54.0284108],
            [36.8641525, 94.5167133],
            [46.8750000, 11.7500000],
            [35.8091082, 94.4880017],
            [98.8750000, 20.8750000],
            [1.8750000, 3.1250000],
            [72.2500000, 65.7500000],
            [13.8136625, 53.7195360],
        ],
    );
}

#[test]
fn d_gmm_keeps_its_values() {
    assert_frozen(
        "co-occurrence",
        dgmm(SimilarityKind::Cooccurrence),
        "527143520643520643527143527643527643527143520643",
        [
            [13.9252245, 53.9567621],
            [72.3749102, 65.7292877],
            [46.8750000, 11.7500000],
            [36.2500000, 94.5000000],
            [98.8750000, 20.8750000],
            [1.8750000, 3.1250000],
            [72.1251182, 65.7707076],
            [13.8247627, 53.7932170],
        ],
    );
    assert_frozen(
        "posterior",
        dgmm(SimilarityKind::Posterior),
        "250643257143257143250643250143250143250643257143",
        [
            [13.8622114, 53.8454045],
            [72.2124176, 65.7559293],
            [1.8750000, 3.1250000],
            [36.2500000, 94.5000000],
            [98.8750000, 20.8750000],
            [46.8750000, 11.7500000],
            [72.2875835, 65.7440705],
            [13.8877927, 53.9046051],
        ],
    );
    assert_frozen(
        "kernel",
        dgmm(SimilarityKind::Kernel),
        "250643250143250143250643250143250143250643250143",
        [
            [13.8351411, 53.7787468],
            [72.0164649, 65.8276549],
            [1.8750000, 3.1250000],
            [37.0000003, 96.0000003],
            [98.8750000, 20.8750000],
            [46.8750000, 11.7500000],
            [72.5075929, 65.6643454],
            [30.3401639, 83.5060897],
        ],
    );
    assert_frozen(
        "uniform",
        dgmm(SimilarityKind::Uniform),
        "520143557163527163520143520143520143520143527163",
        [
            [13.8721516, 53.8197352],
            [72.2500000, 65.7500000],
            [46.7142857, 12.2857143],
            [36.2500000, 94.5000000],
            [98.8731522, 20.8425730],
            [6.9999997, 3.6666666],
            [98.8768572, 20.9076058],
            [13.8777979, 53.9292842],
        ],
    );
}

/// Integers, in clusters that overlap slightly: 6,000 rows of 6 columns around 100 points.
fn table() -> Array2<f64> {
    let mut rng = Random(77);
    let places = Array2::from_shape_fn((100, 6), |_| (rng.bits() % 4096) as f64);
    // A sum of four is nearly normal, and exact.
    Array2::from_shape_fn((6000, 6), |(n, d)| {
        places[[n * 7 % 100, d]] + (0..4).map(|_| (rng.bits() % 512) as f64 - 255.5).sum::<f64>()
    })
}

/// The settings whose values are frozen: every system and engine, with default settings and other seedings.
fn frozen_cases(clusters: usize) -> Vec<Case> {
    let engine = |engine| Dgmm::params(clusters).engine(engine);
    let mut systems = vec![
        ("vc-gmm", VcGmm::params(clusters)),
        ("auto", engine(Engine::Auto)),
        ("pointwise", engine(Engine::Pointwise)),
        ("grouped", engine(Engine::Grouped)),
    ];
    if clusters <= 150 {
        systems.push(("k-means", KMeans::params(clusters)));
    }
    if clusters <= 60 {
        systems.push(("exact", ExactGmm::params(clusters)));
    }
    let mut cases = Vec::new();
    for (name, params) in systems {
        let mut case = |start: &str, params: Params, given, weighted| {
            let rows = if weighted { "weighted" } else { "plain" };
            cases.push((format!("{name} {clusters} {start} {rows}"), params.max_iter(20), given, weighted));
        };
        let coreset = |params: &Params| params.clone().coreset_size(2000);
        case("auto", params.clone(), false, false);
        if clusters > 300 {
            continue;
        }
        case("hierarchical", params.clone().init(Init::Hierarchical), false, true);
        case("afk-mc2", params.clone().init(Init::AfkMc2), false, false);
        case("given", params.clone(), true, true);
        case("hierarchical,coreset", coreset(&params).init(Init::Hierarchical), false, true);
        case("afk-mc2,coreset", coreset(&params).init(Init::AfkMc2), false, false);
    }
    cases
}

/// Mixtures of every covariance and engine, and every system with directions: a few iterations from given centers.
fn shaped_cases(clusters: usize) -> Vec<Case> {
    let mixture = |kind, engine| GaussianMixture::params(clusters).covariance(kind).engine(engine);
    let mut systems = vec![
        ("diag", mixture(Covariance::Diag, Engine::Auto)),
        ("diag-pointwise", mixture(Covariance::Diag, Engine::Pointwise)),
        ("spherical", mixture(Covariance::Spherical, Engine::Grouped)),
        ("tied", mixture(Covariance::TiedDiag, Engine::Auto)),
    ];
    for (name, params) in [
        ("cosine-k-means", KMeans::params(clusters)),
        ("cosine-exact", ExactGmm::params(clusters)),
        ("cosine-vc-gmm", VcGmm::params(clusters)),
        ("cosine-pointwise", Dgmm::params(clusters).engine(Engine::Pointwise)),
        ("cosine-grouped", Dgmm::params(clusters).engine(Engine::Grouped)),
    ] {
        systems.push((name, params.metric(Metric::Cosine)));
    }
    let case = |(name, params): (&str, Params)| {
        (format!("{name} {clusters} given weighted"), params.max_iter(4).tol(0.0), true, true)
    };
    systems.into_iter().map(case).collect()
}

/// A line for each case: its name, iterations, distance evaluations, inertia, F, s2, and a sum over the centers.
fn lines<T: Real>(sizes: &[usize], cases: fn(usize) -> Vec<Case>) -> Vec<String> {
    let x = table().mapv(T::from_f64);
    let w = weights(x.nrows());
    let mut lines = Vec::new();
    for &clusters in sizes {
        // Every 19th row: rows of all clusters.
        let start = x.slice(s![..(19 * clusters).min(x.nrows());19, ..]).to_owned();
        for (name, params, given, weighted) in cases(clusters) {
            let data = Dataset::new(x.view()).unwrap();
            let data = if weighted { data.weighted(w.view()).unwrap() } else { data };
            let fit = params.seed(12).fit_observed(&data, given.then(|| start.view()), &Silent).unwrap();
            let (report, centers) = (&fit.report, fit.model.centers());
            let sum: f64 = centers.iter().zip(0..).map(|(v, i)| v.to_f64() * (1.0 + (i % 97) as f64 / 97.0)).sum();
            let evaluations = report.evaluations.coreset + report.evaluations.seeding + report.evaluations.em;
            let mut line = format!("{} {name} {} {evaluations}", T::NAME, report.iterations.len());
            for value in [report.inertia, report.lower_bound, fit.model.variance(), sum] {
                write!(line, " {value:.11e}").unwrap();
            }
            lines.push(line);
        }
    }
    lines
}

fn fits_keep_their_values<T: Real>(file: &str, now: Vec<String>, tolerance: f64, evaluations: f64) {
    let kept = std::fs::read_to_string(file).unwrap_or_default();
    if std::env::var_os("DGMM_PRINT_VALUES").is_some() {
        let others = kept.lines().filter(|line| !line.starts_with(T::NAME)).map(str::to_owned);
        let mut all: Vec<String> = others.chain(now).collect();
        all.sort_by(|a, b| a[..7].cmp(&b[..7]));
        std::fs::write(file, all.join("\n") + "\n").unwrap();
        return;
    }
    let then: Vec<&str> = kept.lines().filter(|line| line.starts_with(T::NAME)).collect();
    assert_eq!(now.len(), then.len(), "cases in {file}");
    let mut changed = Vec::new();
    for (now, then) in now.iter().zip(then) {
        let (a, b): (Vec<&str>, Vec<&str>) = (now.split(' ').collect(), then.split(' ').collect());
        let number = |text: &str| text.parse::<f64>().unwrap();
        let close = |(a, b): (&&str, &&str)| (number(a) - number(b)).abs() <= tolerance * number(b).abs();
        let evaluated = (number(a[6]) - number(b[6])).abs() <= evaluations * number(b[6]);
        // Five words of a name, two counts, four numbers.
        if a[..6] != b[..6] || !evaluated || !a[7..].iter().zip(&b[7..]).all(close) {
            changed.push(format!("{now}\n was {then}"));
        }
    }
    assert!(changed.is_empty(), "{} fits have changed:\n{}", changed.len(), changed.join("\n"));
}

// With the last, the number of cells follows from the root, not from the minimum number of centers per cell.
const SIZES: [usize; 5] = [8, 60, 150, 300, 1500];

#[test]
fn default_fits_keep_their_values_in_f32() {
    // Instruction sets without fused multiply-add have slightly larger rounding errors and occasionally choose other
    // candidates over many iterations.
    fits_keep_their_values::<f32>(VALUES, lines::<f32>(&SIZES, frozen_cases), 3e-5, 3e-3);
}

#[test]
fn default_fits_keep_their_values_in_f64() {
    fits_keep_their_values::<f64>(VALUES, lines::<f64>(&SIZES, frozen_cases), 1e-9, 0.0);
}

#[test]
fn mixtures_and_directions_keep_their_values_in_f32() {
    fits_keep_their_values::<f32>(SHAPES, lines::<f32>(&[8, 60, 150], shaped_cases), 1e-4, 1e-4);
}

#[test]
fn mixtures_and_directions_keep_their_values_in_f64() {
    fits_keep_their_values::<f64>(SHAPES, lines::<f64>(&[8, 60, 150], shaped_cases), 1e-9, 0.0);
}
