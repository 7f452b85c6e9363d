//! Serialization of the clusters' variances and weights, and of the rule by which they are learned.

use crate::bytes::{Reader, Writer};
use crate::error::Result;
use crate::model::Shape;
use crate::model::score::Lift;
use crate::options::Covariance;
use crate::step::shape::ShapeRule;

const COVARIANCES: [Covariance; 4] =
    [Covariance::Isotropic, Covariance::Spherical, Covariance::TiedDiag, Covariance::Diag];
const MOMENTS: [Option<Lift>; 3] = [None, Some(Lift::Norm), Some(Lift::Squares)];

/// The index of a value in a short list, as a byte.
fn place_of<X: PartialEq>(all: &[X], one: &X) -> u8 {
    all.iter().position(|x| x == one).expect("all are there") as u8
}

impl Writer {
    pub(super) fn moments(&mut self, moments: Option<Lift>) {
        self.byte(place_of(&MOMENTS, &moments));
    }

    pub(super) fn shape(&mut self, shape: Option<&Shape>) {
        self.byte(u8::from(shape.is_some()));
        if let Some(shape) = shape {
            self.byte(place_of(&COVARIANCES, &shape.covariance()));
            self.reals(shape.variances());
            self.reals(shape.weights().unwrap_or_default());
        }
    }

    pub(super) fn rule(&mut self, rule: Option<&ShapeRule>) {
        self.byte(u8::from(rule.is_some()));
        if let Some(rule) = rule {
            self.byte(place_of(&COVARIANCES, &rule.covariance));
            self.byte(u8::from(rule.weighted));
            self.real(rule.reg_covar);
            self.number(rule.warm_up);
        }
    }
}

impl Reader<'_> {
    fn one_of<X: Copy>(&mut self, all: &[X]) -> Result<X> {
        let place = usize::from(self.byte()?);
        self.check(place < all.len(), "unknown choice")?;
        Ok(all[place])
    }

    pub(super) fn moments(&mut self) -> Result<Option<Lift>> {
        self.one_of(&MOMENTS)
    }

    pub(super) fn shape(&mut self, clusters: usize, dim: usize) -> Result<Option<Shape>> {
        if !self.flag()? {
            return Ok(None);
        }
        let (covariance, variances, weights): (_, Vec<f64>, Vec<f64>) =
            (self.one_of(&COVARIANCES)?, self.reals()?, self.reals()?);
        let weights = Some(&weights[..]).filter(|weights| !weights.is_empty());
        let shape = Shape::new(covariance, &variances, weights, (clusters, dim));
        shape.map(Some).map_err(|error| self.bad(&error.to_string()))
    }

    pub(super) fn rule(&mut self) -> Result<Option<ShapeRule>> {
        if !self.flag()? {
            return Ok(None);
        }
        let (covariance, weighted) = (self.one_of(&COVARIANCES)?, self.flag()?);
        let (reg_covar, warm_up) = (self.real()?, self.number()?);
        self.check(reg_covar.is_finite() && reg_covar >= 0.0, "reg_covar is negative or not finite")?;
        Ok(Some(ShapeRule { covariance, weighted, reg_covar, warm_up }))
    }
}
