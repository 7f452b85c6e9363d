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
