//! Serialization of trainers, so that a fit can be resumed where it stopped.

use crate::bytes::{Reader, Writer};
use crate::error::Result;
use crate::kernel::Real;
use crate::model::Model;
use crate::model::score::Scores;
use crate::options::Stop;
use crate::report::{Iteration, Report};
use crate::step::convergence::Convergence;
use crate::step::objective::Bound;
use crate::step::round::{Round, Search};
use crate::step::trainer::{Due, Refinement, Trainer, Training};
use ndarray::ArrayView2;
use std::time::Instant;

const STOPS: [Stop; 3] = [Stop::PerDim, Stop::Relative, Stop::Absolute];
const DUE: [Due; 6] = [Due::Iteration, Due::Variance, Due::Shape, Due::Labels, Due::Nothing, Due::Probe];

impl Training {
    fn write(&self, out: &mut Writer) {
        self.search.write(out);
        out.byte(u8::from(self.hard));
        out.byte(u8::from(self.relocate));
        out.byte(STOPS.iter().position(|&stop| stop == self.stop).expect("all are there") as u8);
        out.number(self.hard_iterations);
        out.number(self.max_iter as u64);
        out.number(self.refine as u64);
        [self.step_length, self.tol, self.variance_floor].iter().for_each(|&x| out.real(x));
        out.rule(self.shape.as_ref());
    }

    fn read(reader: &mut Reader<'_>, clusters: usize) -> Result<Self> {
        let search = Search::read(reader, clusters)?;
        let (hard, relocate, stop) = (reader.flag()?, reader.flag()?, usize::from(reader.byte()?));
        reader.check(stop < STOPS.len(), "unknown stopping rule")?;
        let stop = STOPS[stop];
        let (hard_iterations, max_iter, refine) = (reader.number()?, reader.size()?, reader.size()?);
        let (step_length, tol, variance_floor) = (reader.real()?, reader.real()?, reader.real()?);
        let right = step_length > 0.0 && step_length < 2.0 && tol >= 0.0 && variance_floor > 0.0;
        reader.check(right && variance_floor.is_finite(), "a setting is out of range")?;
        let shape = reader.rule()?;
        Ok(Self {
            search,
            hard,
            hard_iterations,
            step_length,
            stop,
            tol,
            max_iter,
            refine,
            relocate,
            variance_floor,
            shape,
        })
    }
}

impl Report {
    fn write(&self, out: &mut Writer) {
        out.number(self.iterations.len() as u64);
        for i in &self.iterations {
            [i.lower_bound, i.variance, i.seconds].iter().for_each(|&x| out.real(x));
            [i.distance_evals, i.rows, i.refine as u64].iter().for_each(|&x| out.number(x));
        }
        out.byte(u8::from(self.converged));
        out.byte(u8::from(self.stopped));
        [self.inertia, self.lower_bound].iter().for_each(|&x| out.real(x));
        [self.evaluations.seeding, self.evaluations.em].iter().for_each(|&x| out.number(x));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let mut report = Self::default();
        for _ in 0..reader.size()? {
            let (lower_bound, variance, seconds) = (reader.real()?, reader.real()?, reader.real()?);
            let (distance_evals, rows, refine) = (reader.number()?, reader.number()?, reader.size()?);
            report.iterations.push(Iteration { lower_bound, variance, seconds, distance_evals, rows, refine });
        }
        (report.converged, report.stopped) = (reader.flag()?, reader.flag()?);
        (report.inertia, report.lower_bound) = (reader.real()?, reader.real()?);
        (report.evaluations.seeding, report.evaluations.em) = (reader.number()?, reader.number()?);
        Ok(report)
    }
}

impl<T: Real> Trainer<T> {
    /// Serializes the trainer: the bytes of its round, and t M D for the previous model, where t is the size of a
    /// number.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(b'T', size_of::<T>());
        let round = self.round.to_bytes();
        out.number(round.len() as u64);
        out.0.extend(round);
        self.training.write(&mut out);
        out.reals(self.previous.0.local_centers());
        [self.previous.0.variance(), self.previous.1].iter().for_each(|&x| out.real(x));
        out.shape(self.previous.0.shape());
        out.byte(u8::from(self.convergence.last.is_some()));
        let (last, provisional) = self.convergence.last.map_or_else(Default::default, |(f, hard)| (f.mean, hard));
        out.real(last);
        out.byte(u8::from(provisional));
        self.report.write(&mut out);
        out.byte(u8::from(self.refinement.is_some()));
        self.refinement.iter().for_each(|refinement| refinement.write(&mut out));
        out.byte(DUE.iter().position(|&due| due == self.due).expect("all are there") as u8);
        out.number(self.evaluations);
        out.real(self.seconds());
        out.0
    }

    /// The trainer serialized by [`to_bytes`](Self::to_bytes). It continues with the same bits.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "a trainer", b'T', size_of::<T>())?;
        let length = reader.size()?;
        let round = Round::<T>::from_bytes(reader.take(length)?)?;
        let (clusters, dim) = (round.model.clusters(), round.model.dim());
        let training = Training::read(&mut reader, clusters)?;
        reader.check(training.search == round.search, "the search differs from that of the round")?;
        let centers: Vec<T> = reader.reals()?;
        let (variance, bound) = (reader.real()?, reader.real()?);
        reader.check(centers.len() == clusters * dim, "the previous model is cut off")?;
        reader.check(centers.iter().all(|x| x.is_finite()) && variance > 0.0, "the previous model is not finite")?;
        let local = ArrayView2::from_shape((clusters, dim), &centers).expect("as many as the shape says");
        let origin = round.model.origin().map(<[T]>::to_vec);
        let mut previous = (Model::of_local(local, origin, variance, round.model.metric())?, bound);
        reader.shape(clusters, dim)?.into_iter().for_each(|shape| previous.0.set_shape(shape));
        let (known, mean, provisional) = (reader.flag()?, reader.real()?, reader.flag()?);
        let mut convergence = Convergence::new(training.stop, training.tol, T::EPSILON.to_f64());
        // It belongs to the previous model.
        let last = Bound::at(&Scores::of(&previous.0)?, dim, mean);
        convergence.last = known.then_some((last, provisional));
        let report = Report::read(&mut reader)?;
        let refinement = if reader.flag()? { Some(Refinement::read(&mut reader, &round)?) } else { None };
        let due = usize::from(reader.byte()?);
        reader.check(due < DUE.len(), "unknown state")?;
        let (evaluations, elapsed) = (reader.number()?, reader.real()?);
        reader.end()?;
        let (due, clock) = (DUE[due], Instant::now());
        Ok(Self { training, round, previous, convergence, report, refinement, due, evaluations, elapsed, clock })
    }
}
