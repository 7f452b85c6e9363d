//! Directions: the same clusters regardless of the lengths of the rows and of where they are processed.

use dgmm::step::{Memberships, Merger, Round, Shard, Summary, Trainer, step};
use dgmm::{Dataset, Dgmm, Engine, Error, ExactGmm, KMeans, Metric, Model, Params, Run, Stream, VcGmm};
use ndarray::{Array2, ArrayView1};

const ROWS: usize = 5000;
const COLUMNS: usize = 7;

/// Rows around 40 directions, with lengths scaled by `scale`.
fn rows(scale: impl Fn(usize) -> f32) -> Array2<f32> {
    let direction = |c: usize, d: usize| ((c * 7919 + d * 104_729 + c * c * (13 + d)) % 1009) as f32 / 504.5 - 1.0;
    let noise = |n: usize, d: usize| ((n * 37 + d * 11 + n * n % 97) % 101) as f32 / 400.0;
    Array2::from_shape_fn((ROWS, COLUMNS), |(n, d)| (direction(n % 40, d) + noise(n, d)) * scale(n))
}

fn systems(clusters: usize) -> Vec<Params> {
    let dgmm = |engine| Dgmm::params(clusters).engine(engine);
    let all = vec![
        dgmm(Engine::Grouped),
        dgmm(Engine::Pointwise),
        VcGmm::params(clusters),
        ExactGmm::params(clusters),
        KMeans::params(clusters),
    ];
    all.into_iter().map(|params| params.metric(Metric::Cosine).seed(3).max_iter(8)).collect()
}

fn cosine(a: ArrayView1<'_, f32>, b: ArrayView1<'_, f32>) -> f64 {
    let dot = |x: ArrayView1<'_, f32>, y: ArrayView1<'_, f32>| {
        x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn powers_of_two_and_threads_do_not_change_bits() {
    let plain = rows(|_| 1.0);
    let scaled = rows(|n| f64::from((n * 13 % 121) as i32 - 60).exp2() as f32);
    for params in systems(60) {
        let fit =
            |x: &Array2<f32>, threads| params.clone().threads(threads).fit(&Dataset::new(x.view()).unwrap()).unwrap();
        let (one, other) = (fit(&plain, 1), fit(&scaled, 3));
        assert_eq!((&one.model, &one.labels), (&other.model, &other.labels), "{params:?}");
        assert_eq!(one.report.lower_bound.to_bits(), other.report.lower_bound.to_bits());
    }
}

#[test]
fn f_never_falls_and_labels_are_the_nearest_directions() {
    let x = rows(|n| 0.01 + (n % 17) as f32);
    let data = Dataset::new(x.view()).unwrap();
    for params in systems(60) {
        let fit = params.fit(&data).unwrap();
        let bounds: Vec<f64> = fit.report.iterations.iter().map(|i| i.lower_bound).collect();
        assert!(bounds.windows(2).all(|w| w[1] >= w[0] - 1e-5), "{bounds:?}");
        let centers = fit.model.centers();
        for center in centers.rows() {
            let length: f64 = center.iter().map(|&x| f64::from(x).powi(2)).sum();
            assert!((length - 1.0).abs() < 1e-6);
        }
        let labels = fit.model.predict(&data, &Run::default()).unwrap();
        for n in (0..ROWS).step_by(13) {
            let best = centers.rows().into_iter().map(|c| cosine(x.row(n), c)).fold(-1.0, f64::max);
            assert!(best - cosine(x.row(n), centers.row(labels[n] as usize)) < 1e-6);
        }
        let error = fit.model.quantization_error(&data, &Run::default()).unwrap();
        assert!(fit.report.inertia >= error * (1.0 - 1e-5));
        assert_eq!(fit.model.concentration(), Some(1.0 / fit.model.variance()));
    }
}

#[test]
fn shards_and_bytes_lead_to_the_same_model() {
    let x = rows(|n| 1.0 + (n % 5) as f32);
    let data = Dataset::new(x.view()).unwrap();
    let run = Run::default();
    let params = Dgmm::params(120).metric(Metric::Cosine).engine(Engine::Grouped).seed(9).shard_rows(1800).max_iter(5);
    let plan = params.plan(ROWS, COLUMNS).unwrap();
    let shards = Shard::cut(&data, plan.shard_rows).unwrap();
    let mut summaries = Merger::default();
    for shard in &shards {
        let summary = Summary::of(shard, &plan.sampling(), &run).unwrap();
        summaries.add(Summary::from_bytes(&summary.to_bytes()).unwrap()).unwrap();
    }
    let summary = summaries.finish().unwrap().unwrap();
    let mut trainer = params.trainer_from(&summary, None, &run).unwrap();
    let mut memberships = vec![Memberships::new(); shards.len()];
    while !trainer.is_finished() {
        let round = Round::from_bytes(&trainer.round().to_bytes()).unwrap();
        assert_eq!(round.model().metric(), Metric::Cosine);
        let mut merger = Merger::default();
        for (shard, memberships) in shards.iter().zip(&mut memberships) {
            merger.add(step(&round, shard, memberships, &run).unwrap()).unwrap();
        }
        trainer.absorb(merger.finish().unwrap().unwrap()).unwrap();
        trainer = Trainer::from_bytes(&trainer.to_bytes()).unwrap();
    }
    assert_eq!(params.fit(&data).unwrap().model, trainer.into_model());
    let other = params.metric(Metric::Euclidean).trainer_from(&summary, None, &run).unwrap_err().to_string();
    assert_eq!(other, "metric is 'euclidean'; it must be 'cosine' as in the summary");
}

#[test]
fn a_row_of_zeros_is_refused_and_the_model_stays() {
    let mut x = rows(|_| 1.0);
    let model = KMeans::params(5).metric(Metric::Cosine).fit(&Dataset::new(x.view()).unwrap()).unwrap().model;
    let params = KMeans::params(5).metric(Metric::Cosine);
    let mut stream = Stream::new(model.clone(), vec![0.2; 5], 100.0, 100).unwrap();
    stream.learn(&params, &Dataset::new(x.view()).unwrap(), &Run::default()).unwrap();
    let before = stream.model().clone();
    x.row_mut(17).fill(0.0);
    let data = Dataset::new(x.view()).unwrap();
    let zeros = Error::NoDirection { row: 17, length: 0.0, kind: "float32" };
    assert_eq!(params.fit(&data).unwrap_err(), zeros);
    assert_eq!(model.predict(&data, &Run::default()).unwrap_err(), zeros);
    assert_eq!(model.log_density(&data, &Run::default()).unwrap_err(), zeros);
    assert_eq!(stream.learn(&params, &data, &Run::default()).unwrap_err(), zeros);
    assert_eq!(stream.model(), &before);
    let none = Model::with_metric(Array2::<f32>::zeros((2, 3)).view(), 1.0, Metric::Cosine).unwrap_err().to_string();
    assert!(none.starts_with("start is without a direction in row 0"), "{none}");
}

#[cfg(feature = "files")]
#[test]
fn a_file_keeps_the_metric() {
    let centers = ndarray::array![[1.0f64, 2.0], [-3.0, 0.5]];
    for metric in [Metric::Euclidean, Metric::Cosine] {
        let path = std::env::temp_dir().join(format!("dgmm-{}-{}.safetensors", metric.name(), std::process::id()));
        let model = Model::with_metric(centers.view(), 0.25, metric).unwrap();
        model.save(&path).unwrap();
        let again = Model::load(&path).unwrap();
        let version = dgmm::files::read(&path, &dgmm::Silent).unwrap().metadata["format_version"].clone();
        std::fs::remove_file(path).unwrap();
        assert_eq!(again, model);
        assert_eq!(version, if metric == Metric::Cosine { "2" } else { "1" });
    }
}
