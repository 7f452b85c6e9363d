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
        VcGmm::params(CLUSTERS).truncation(3).neighbours(3),
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
        VcGmm::params(CLUSTERS).truncation(3).neighbours(3).random_neighbour(false),
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
        "527641520641520643527641527641527641527641520643",
        [
            [13.9530022, 54.1001213],
            [36.2521042, 94.5041561],
            [46.8750000, 11.7500000],
            [34.0000355, 90.0560209],
            [98.8750000, 20.8750000],
            [1.8750000, 3.1250000],
            [72.2500000, 65.7500000],
            [13.7898377, 53.6292138],
        ],
    );
    assert_frozen(
        "posterior",
        dgmm(SimilarityKind::Posterior),
        "520143520143520643520143520643520643520143520643",
        [
            [13.8974407, 53.9455573],
            [72.1391983, 65.8886704],
            [46.8399303, 11.7437557],
            [36.2535610, 94.4809732],
            [98.8750008, 20.8750003],
            [1.9265993, 3.0683163],
            [71.2269094, 66.5129526],
            [11.9298941, 44.7528117],
        ],
    );
    assert_frozen(
        "kernel",
        dgmm(SimilarityKind::Kernel),
        "250643250643250643250643250643250643250643250643",
        [
            [13.9188664, 53.9896179],
            [57.0973587, 77.7160265],
            [2.9393561, 3.2836836],
            [36.2101915, 94.5039676],
            [98.8748932, 20.8749810],
            [46.1646876, 11.6256964],
            [72.3614970, 65.7115110],
            [13.1039610, 50.7231345],
        ],
    );
    assert_frozen(
        "uniform",
        dgmm(SimilarityKind::Uniform),
        "527643520641520641527643527643527643527643520641",
        [
            [13.9711426, 54.1211180],
            [34.8273053, 91.9547540],
            [46.8750000, 11.7500000],
            [37.1945024, 96.1897447],
            [98.8750000, 20.8750000],
            [1.8750000, 3.1250000],
            [72.2500000, 65.7500000],
            [13.7750314, 53.6190876],
        ],
    );
}
