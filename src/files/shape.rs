//! The variances and weights of a model in its file.

use super::{Contents, Tensor, Values, foreign};
use crate::error::Result;
use crate::model::Shape;
use crate::options::{Covariance, Weights};
use std::collections::BTreeMap;
use std::path::Path;

const COVARIANCE: &str = "covariance_type";
const COVARIANCES: &str = "covariances_";
const WEIGHTS: &str = "weights";
const WEIGHTS_OF_CLUSTERS: &str = "weights_";

/// The shape of the array of variances.
fn sizes(covariance: Covariance, (clusters, dim): (usize, usize)) -> Vec<usize> {
    match covariance {
        Covariance::Isotropic => vec![1],
        Covariance::Spherical => vec![clusters],
        Covariance::TiedDiag => vec![dim],
        Covariance::Diag => vec![clusters, dim],
    }
}

/// Adds the variances and weights of `clusters` x `dim` clusters to the contents of a file.
pub(super) fn add(contents: &mut Contents<'_>, shape: &Shape, of: (usize, usize)) -> Result<()> {
    let kind = shape.covariance().name();
    let weights = if shape.weights().is_some() { Weights::Learned } else { Weights::Equal }.name();
    let settings =
        format!("{{\"n_components\": {}, \"{COVARIANCE}\": \"{kind}\", \"{WEIGHTS}\": \"{weights}\"}}", of.0);
    let tensor = |name: &str| format!("\"{name}\": {{\"tensor\": \"{name}\"}}");
    let attributes = format!("{{{}, {}}}", tensor(COVARIANCES), tensor(WEIGHTS_OF_CLUSTERS));
    for (key, value) in [
        ("estimator", "GaussianMixture"),
        ("settings", &settings),
        ("attributes", &attributes),
        (COVARIANCE, kind),
        (WEIGHTS, weights),
    ] {
        contents.metadata.insert(key.to_owned(), value.to_owned());
    }
    let variances = Values::F64(shape.variances().to_vec().into());
    contents.tensors.insert(COVARIANCES.to_owned(), Tensor::new(sizes(shape.covariance(), of), variances)?);
    let weights = shape.weights().map_or_else(|| vec![1.0 / of.0 as f64; of.0], <[f64]>::to_vec);
    contents.tensors.insert(WEIGHTS_OF_CLUSTERS.to_owned(), Tensor::new(vec![of.0], Values::F64(weights.into()))?);
    Ok(())
}

/// The variances and weights of a file's model, if it has them.
pub(super) fn take(
    path: &Path,
    metadata: &BTreeMap<String, String>,
    tensors: &mut BTreeMap<String, Tensor<'static>>,
    of: (usize, usize),
) -> Result<Option<Shape>> {
    let Some(kind) = metadata.get(COVARIANCE) else { return Ok(None) };
    let covariance: Covariance = kind.parse().map_err(|e: crate::Error| foreign(path, e.to_string()))?;
    let mut numbers = |name: &str, sizes: &[usize]| match tensors.remove(name).map(Tensor::into_parts) {
        Some((found, Values::F64(numbers))) if found == sizes => Ok(numbers),
        _ => Err(foreign(path, format!("{name} must be F64 of shape {sizes:?}"))),
    };
    let variances = numbers(COVARIANCES, &sizes(covariance, of))?;
    let weights = match metadata.get(WEIGHTS).map(String::as_str) {
        Some("equal") => None,
        _ => Some(numbers(WEIGHTS_OF_CLUSTERS, &[of.0])?),
    };
    let shape = Shape::new(covariance, &variances, weights.as_deref(), of);
    shape.map(Some).map_err(|e| foreign(path, e.to_string()))
}
