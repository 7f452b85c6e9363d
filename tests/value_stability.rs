//! A seed keeps its meaning from version to version: what these fits give is frozen here. A change of these numbers breaks
//! values for users and belongs in the changelog as such. With DGMM_PRINT_VALUES set, the test prints them instead.

use dgmm::{Dataset, Dgmm, Engine, ExactGmm, Init, KMeans, Params, SimilarityKind, VcGmm};
use ndarray::Array2;

const ROWS: usize = 48;
const CLUSTERS: usize = 8;

/// Whole numbers, in six groups that are far apart, so that rounding decides nothing.
fn data() -> Array2<f64> {
    Array2::from_shape_fn((ROWS, 2), |(n, d)| {
        let (group, k) = (n % 6, n / 6);
        let place = [[0, 0], [40, 7], [11, 52], [70, 60], [95, 18], [33, 90]][group][d];
        (place + (k * k * (3 + 2 * d) + 5 * group) % 9) as f64
    })
}

/// The labels as a string of digits, and the centres.
fn fit(params: Params) -> (String, Vec<[f64; 2]>) {
    let x = data();
    let fit = params.init(Init::AfkMc2).max_iter(6).tol(0.0).seed(11).fit(&Dataset::new(x.view()).unwrap()).unwrap();
    let labels = fit.labels.iter().map(|c| char::from_digit(*c, 10).unwrap()).collect();
    (labels, fit.model.centres().rows().into_iter().map(|c| [c[0], c[1]]).collect())
}

fn assert_frozen(name: &str, params: Params, labels: &str, centres: [[f64; 2]; CLUSTERS]) {
    let (now, places) = fit(params);
    if std::env::var_os("DGMM_PRINT_VALUES").is_some() {
        let places: Vec<String> = places.iter().map(|[a, b]| format!("[{a:.7}, {b:.7}]")).collect();
        println!("{name}: \"{now}\", [{}]", places.join(", "));
        return;
    }
    assert_eq!(now, labels, "{name}: labels");
    for (now, then) in places.as_flattened().iter().zip(centres.as_flattened()) {
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
        "462351467301467301462351462351462351462351467301",
        [
            [100.0000000, 23.0000000],
            [36.2500000, 94.5000000],
            [13.2000000, 52.6000000],
            [72.2500000, 65.7500000],
            [1.8750000, 3.1250000],
            [98.2000000, 19.6000000],
            [46.8750000, 11.7500000],
            [15.0000000, 56.0000000],
        ],
    );
    assert_frozen(
        "k-means, coreset",
        KMeans::params(CLUSTERS).coreset_size(24),
        "731265731205731205731265431265431265731265731205",
        [
            [100.0000000, 25.0000000],
            [15.0000000, 53.9851280],
            [73.9120208, 66.6959931],
            [47.0045508, 12.3631285],
            [3.0000000, 8.0000000],
            [36.4513687, 94.1152522],
            [97.0000000, 20.0000000],
            [2.3063569, 3.0967977],
        ],
    );
}

#[test]
fn exact_gmm_keeps_its_values() {
    assert_frozen(
        "exact GMM",
        ExactGmm::params(CLUSTERS),
        "462351467301467301462351462351462351462351467301",
        [
            [98.8726081, 20.8808562],
            [36.2500000, 94.5000000],
            [13.7752224, 53.6728528],
            [72.2500000, 65.7500000],
            [1.8750000, 3.1250000],
            [98.8773849, 20.8691611],
            [46.8750000, 11.7500000],
            [13.9905296, 54.1090604],
        ],
    );
}

#[test]
fn vc_gmm_keeps_its_values() {
    assert_frozen(
        "vc-GMM",
        VcGmm::params(CLUSTERS).truncation(3).neighbours(3),
        "467051467351467351467051462351462351467051467351",
        [
            [72.2779167, 65.7333809],
            [36.2500000, 94.5000000],
            [14.1046233, 52.5853249],
            [72.2223085, 65.7664850],
            [1.8750000, 3.1249999],
            [98.8750000, 20.8750000],
            [46.8750000, 11.7500000],
            [13.8741675, 53.8796735],
        ],
    );
    assert_frozen(
        "vc-GMM, not random",
        VcGmm::params(CLUSTERS).truncation(3).neighbours(3).random_neighbour(false),
        "467051267351467351467051267351267351467051467351",
        [
            [72.2806098, 65.7439869],
            [36.2500000, 94.5000000],
            [2.2675518, 3.7660621],
            [72.2193675, 65.7560176],
            [1.7460305, 2.9143845],
            [98.8750000, 20.8750000],
            [46.8750000, 11.7500000],
            [13.8750000, 53.8750000],
        ],
    );
}

#[test]
fn d_gmm_keeps_its_values() {
    assert_frozen(
        "co-occurrence",
        dgmm(SimilarityKind::Cooccurrence),
        "427351467351467051427351467051467051427351467051",
        [
            [71.6201418, 66.4590670],
            [36.2500000, 94.5000000],
            [45.1107661, 12.0152418],
            [72.4506083, 65.5241639],
            [1.8750000, 3.1250000],
            [98.8750000, 20.8750000],
            [46.8750913, 11.7499863],
            [13.8750000, 53.8750000],
        ],
    );
    assert_frozen(
        "posterior",
        dgmm(SimilarityKind::Posterior),
        "467051467351467351467051267351267351467051467351",
        [
            [73.9618929, 64.6451916],
            [36.2500000, 94.5000000],
            [3.0000002, 7.9993725],
            [72.2500000, 65.7500000],
            [1.8750000, 3.1250000],
            [98.8750000, 20.8750000],
            [46.8750000, 11.7500000],
            [13.8750000, 53.8750000],
        ],
    );
    assert_frozen(
        "kernel",
        dgmm(SimilarityKind::Kernel),
        "467351467301467301467351467351467351467351467301",
        [
            [99.0994116, 22.6976143],
            [36.2500000, 94.5000000],
            [9.4289753, 6.7150521],
            [72.2499922, 65.7500053],
            [1.8718992, 3.1166803],
            [98.8740533, 20.8686178],
            [46.8757183, 11.7499488],
            [13.8750000, 53.8750000],
        ],
    );
    assert_frozen(
        "uniform",
        dgmm(SimilarityKind::Uniform),
        "467301462301462301467301467351467351467301462301",
        [
            [98.7148273, 21.1614490],
            [36.2500014, 94.5000023],
            [14.8250923, 54.5387429],
            [72.2499998, 65.7500001],
            [1.8750000, 3.1249996],
            [98.9997894, 20.6518296],
            [46.8750015, 11.7499980],
            [13.4503010, 53.5781007],
        ],
    );
}
