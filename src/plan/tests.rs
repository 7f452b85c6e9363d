use super::*;

#[test]
fn defaults_follow_from_the_sizes() {
    let plan = |params: Params, rows| params.plan(rows, 10).unwrap();
    let few = plan(Dgmm::params(100), 10_000);
    assert_eq!((few.search, few.tol, few.step_length), (Search::Exhaustive { truncation: 1 }, 3e-5, 1.6));
    let two = plan(Dgmm::params(2), 10_000);
    assert_eq!((two.search, two.tol, two.step_length), (Search::Exhaustive { truncation: 1 }, 3e-5, 1.6));
    let many = plan(Dgmm::params(101), 10_000);
    assert_eq!(many.search, Search::Grouped { truncation: 3, candidates: 56 });
    assert_eq!((many.tol, many.step_length, many.hard_iterations, many.refine), (1e-3, 1.6, 2, 2));
    let rounds = |params: Params| plan(params, 10_000).refine;
    assert_eq!((rounds(Dgmm::params(101).tol(QUICK_TOL)), rounds(Dgmm::params(101).tol(6e-3))), (0, 2));
    assert_eq!((rounds(Dgmm::params(101).stop(Stop::Relative)), rounds(Dgmm::params(101).truncation(1))), (0, 0));
    assert_eq!((rounds(Dgmm::params(100)), rounds(Dgmm::params(101).engine(Engine::Pointwise))), (0, 0));
    assert_eq!((rounds(Dgmm::params(101).refine(0)), rounds(Dgmm::params(100).refine(3))), (0, 3));
    let even = plan(Dgmm::params(101).max_size(1.9), 10_000);
    assert_eq!((even.search.truncation(), even.tol), (5, 5e-4));
    assert_eq!(plan(Dgmm::params(101).max_size(2.0), 10_000).search, many.search);
    let pointwise = plan(Dgmm::params(101).engine(Engine::Pointwise), 10_000);
    assert_eq!(pointwise.search.truncation(), 5);
    assert_eq!(plan(GaussianMixture::params(200), 10_000).search.truncation(), 5);
    let cosine = plan(Dgmm::params(101).metric(Metric::Cosine), 10_000);
    assert_eq!((cosine.tol, cosine.step_length, cosine.metric), (1e-3, 1.6, Metric::Cosine));
    assert_eq!(plan(Dgmm::params(101), 100_000).hard_iterations, 3);
    assert_eq!(plan(Dgmm::params(101).coreset_size(1000), 100_000).hard_iterations, 1);
    assert_eq!(plan(Dgmm::params(101).stop(Stop::Relative), 10_000).tol, 1e-3);
    assert_eq!(plan(KMeans::params(101), 10_000).tol, 1e-5);
    assert_eq!(plan(Dgmm::params(200), 1000).seeding, Seeding::Hierarchical { chain_length: 5 });
    assert_eq!(plan(Dgmm::params(100), 1000).seeding, Seeding::PlusPlus { trials: 6 });
    assert_eq!(plan(Dgmm::params(100), 1 << 20).seeding, Seeding::AfkMc2 { chain_length: 5 });
}

#[test]
fn with_a_truncation_of_all_clusters_every_engine_is_exact_em() {
    for engine in [Engine::Auto, Engine::Grouped, Engine::Pointwise] {
        for clusters in [20, 150] {
            let params = Dgmm::params(clusters).truncation(clusters).engine(engine);
            let plan = params.plan(100_000, 3).unwrap();
            assert_eq!((plan.hard_iterations, plan.step_length, plan.hard), (0, 1.0, false), "{engine:?}");
        }
    }
}

#[test]
fn shards_are_as_large_as_the_memory_allows() {
    let within = |params: Params, bytes| params.within(bytes, 30, 4);
    let free = within(Dgmm::params(4000), None).unwrap();
    assert_eq!((free.shard_rows, free.sample_rows), (Some(256 * 4000), None));
    let roomy = within(Dgmm::params(1000), Some(4 << 30)).unwrap();
    assert!(roomy.shard_rows > Some(256_000) && roomy.sample_rows == Some(256_000));
    let narrow = within(Dgmm::params(1000), Some(600 << 20)).unwrap();
    assert!(narrow.shard_rows < roomy.shard_rows && narrow.shard_rows > Some(80_000), "{narrow:?}");
    let error = within(Dgmm::params(1000), Some(10 << 20)).unwrap_err().to_string();
    assert!(error.starts_with("memory_limit is 10485760; it must be at least"), "{error}");
    let needed: usize = error.split_whitespace().find_map(|word| word.parse().ok().filter(|&n| n > 96 << 20)).unwrap();
    assert!(
        within(Dgmm::params(1000), Some(needed)).is_ok() && within(Dgmm::params(1000), Some(needed - 1000)).is_err()
    );
}
