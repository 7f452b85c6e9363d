//! Serialization of refinement: what it asks of shards, and what a refining trainer may undo.

use crate::bytes::{Reader, Writer};
use crate::error::Result;
use crate::kernel::Real;
use crate::model::Model;
use crate::model::score::Scores;
use crate::step::groups::Sequence;
use crate::step::objective::Bound;
use crate::step::round::{Request, Round};
use crate::step::similarity::{PairCounts, Similarity};
use crate::step::trainer::{Before, Refinement};
use ndarray::ArrayView2;
use std::sync::Arc;

impl Request {
    pub(super) fn write(&self, out: &mut Writer) {
        let pairs: &[(u32, u32)] = if let Self::Moved(pairs) = self { pairs } else { &[] };
        out.byte(match self {
            Self::Nothing => 0,
            Self::Probe => 1,
            Self::Moved(_) => 2,
            Self::Restore => 3,
        });
        out.ids(&pairs.iter().flat_map(|&(moved, beside)| [moved, beside]).collect::<Vec<_>>());
    }

    pub(super) fn read(reader: &mut Reader<'_>, clusters: usize) -> Result<Self> {
        let (tag, ids) = (reader.byte()?, reader.ids(clusters)?);
        let (pairs, rest) = ids.as_chunks::<2>();
        reader.check(rest.is_empty() && (tag == 2 || pairs.is_empty()), "moved clusters are cut off")?;
        match tag {
            0 => Ok(Self::Nothing),
            1 => Ok(Self::Probe),
            2 => Ok(Self::Moved(pairs.iter().map(|&[moved, beside]| (moved, beside)).collect())),
            3 => Ok(Self::Restore),
            _ => Err(reader.bad("unknown request")),
        }
    }
}

impl<T: Real> Refinement<T> {
    pub(super) fn write(&self, out: &mut Writer) {
        out.number(self.round as u64);
        out.number(self.until as u64);
        out.byte(u8::from(self.before.is_some()));
        let Some(before) = &self.before else { return };
        out.reals(before.model.local_centers());
        [before.model.variance(), before.bound.0.mean].iter().for_each(|&x| out.real(x));
        [before.bound.1, before.settled].iter().for_each(|&x| out.byte(u8::from(x)));
        out.pairs(before.similarity.as_ref().map_or(&PairCounts::none(), |s| &s.counts));
        out.ids(&before.sequence.clusters);
    }

    /// Reads the refinement of the trainer with this round.
    pub(super) fn read(reader: &mut Reader<'_>, round: &Round<T>) -> Result<Self> {
        let (number, until) = (reader.size()?, reader.size()?);
        let before = if reader.flag()? { Some(Before::read(reader, round)?) } else { None };
        Ok(Self { round: number, until, before })
    }
}

impl<T: Real> Before<T> {
    fn read(reader: &mut Reader<'_>, round: &Round<T>) -> Result<Self> {
        let (clusters, dim) = (round.model.clusters(), round.model.dim());
        let centers: Vec<T> = reader.reals()?;
        let (variance, mean) = (reader.real()?, reader.real()?);
        let (provisional, settled) = (reader.flag()?, reader.flag()?);
        reader.check(centers.len() == clusters * dim, "the saved model is cut off")?;
        let finite = centers.iter().all(|x| x.is_finite()) && variance.is_finite() && variance > 0.0;
        reader.check(finite, "the saved model is not finite")?;
        let local = ArrayView2::from_shape((clusters, dim), &centers).expect("as many as the shape says");
        let origin = round.model.origin().map(<[T]>::to_vec);
        let model = Model::of_local(local, origin, variance, round.model.metric())?;
        let pairs = reader.pairs(clusters)?;
        let similarity = if pairs.rows() > 0 { Some(Arc::new(Similarity::new(pairs)?)) } else { None };
        let sequence: Sequence = reader.sequence(clusters)?;
        reader
            .check(sequence.clusters.len() == round.sequence.clusters.len(), "the order of the clusters is missing")?;
        let bound = (Bound::at(&Scores::of(&model)?, dim, mean), provisional);
        Ok(Self { model, similarity, sequence: Arc::new(sequence), bound, settled })
    }
}
