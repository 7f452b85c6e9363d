//! What the feature `serde` writes is read back unchanged.

use crate::common::blobs;
use dgmm::{Coreset, Dataset, Dgmm, Engine, Fit, Model, Params, Run, Seeds, afkmc2, lightweight_coreset};
use ndarray::Array2;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

fn assert_survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
}

#[test]
fn public_data_is_read_back_as_it_was() {
    let x: Array2<f32> = blobs(400, 2, 5, 1).mapv(|x: f32| x + 1000.0);
    let data = Dataset::new(x.view()).unwrap();
    let params = Dgmm::params(5).engine(Engine::Pointwise).seed(3);
    assert_survives::<Params>(&params);
    assert_survives::<Fit<f32>>(&params.fit(&data).unwrap());
    assert_survives::<Coreset<f32>>(&lightweight_coreset(&data, 50, 1, &Run::default()).unwrap());
    assert_survives::<Seeds<f32>>(&afkmc2(&data, 5, 5, 1, &Run::default()).unwrap());
    assert_eq!(serde_json::to_string(&Engine::Pointwise).unwrap(), "\"pointwise\"");
}

#[test]
fn an_impossible_model_is_refused() {
    for (variance, origin, said) in [("-1.0", "null", "variance is -1"), ("1.0", "[0.5, 0.5]", "origin is 2 long")] {
        let centers = r#"{"v": 1, "dim": [2, 1], "data": [0.0, 4.0]}"#;
        let text = format!("{{\"centers\": {centers}, \"variance\": {variance}, \"origin\": {origin}}}");
        let error = serde_json::from_str::<Model<f32>>(&text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
